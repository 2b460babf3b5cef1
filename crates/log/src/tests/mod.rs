mod basic;
mod damage;
mod faults;
mod kafka;
mod kit;
mod search;
mod story;
mod trim;
