//! The whole crate through its public interface, on both stores.

#![allow(clippy::unwrap_used, clippy::expect_used)]

/// Makes two tests of each story, one per store. In memory a story runs in paused time.
macro_rules! stories {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(
                #[tokio::test(start_paused = true)]
                async fn $name() { super::$name(crate::world::World::memory()).await; }
            )*
        }
        mod redis {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() { super::$name(crate::world::World::redis()).await; }
            )*
        }
    };
}

mod batches;
mod by_hand;
mod cluster;
mod couch;
mod cron;
mod damage;
mod failing;
mod flows;
mod groups;
mod layers;
mod losses;
mod on_pool;
mod paused;
mod rights;
mod running;
mod settings;
mod sizes;
mod steering;
mod world;
