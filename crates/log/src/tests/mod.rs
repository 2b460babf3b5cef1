mod basic;
mod kit;
mod story;
