//! Steps of a turn, joined.
