//! The tests of background jobs. The folder `tests` has all of them.
