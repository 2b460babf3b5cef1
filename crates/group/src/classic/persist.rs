//! A classic group as Kafka's record and back.
