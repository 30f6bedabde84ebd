//! The tests of the pool. The folder `tests` has all of them.
