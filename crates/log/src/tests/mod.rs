mod basic;
mod kit;
