//! Each small story prints, word for word, the text in examples/README.md, on a private Redis, and ends well.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;

const README: &str = include_str!("../README.md");

/// The text block under the heading of this story.
fn shown(story: &str) -> &'static str {
    let (_, section) = README.split_once(&format!("\n## {story}\n")).expect("a section of the README");
    let (_, block) = section.split_once("```text\n").expect("a block with the output");
    block.split_once("```").expect("the end of the block").0
}

fn prints_what_is_shown(story: &str, program: &str) {
    let output = Command::new(program).env_remove("REDIS_URL").env_remove("RUST_LOG").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{story} ended with {}: {errors}", output.status);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), shown(story), "{story}; it complained: {errors}");
}

macro_rules! stories {
    ($($test:ident: $story:literal,)*) => {
        $(
            #[test]
            fn $test() {
                prints_what_is_shown($story, env!(concat!("CARGO_BIN_EXE_", $story)));
            }
        )*

        #[test]
        fn every_story_is_shown_and_run() {
            let sections: Vec<_> = README.lines().filter_map(|line| line.strip_prefix("## ")).collect();
            assert_eq!(sections, [$($story,)* "feeds", "deploy-drill", "gateway"]);
        }
    };
}

stories! {
    map_config: "map-config",
    map_multi_node: "map-multi-node",
    stream_readers: "stream-readers",
    stream_sinks: "stream-sinks",
    stream_topics: "stream-topics",
    stream_many: "stream-many",
    pool_worker: "pool-worker",
    pool_connector: "pool-connector",
    pool_producer: "pool-producer",
    pool_scheduler: "pool-scheduler",
    typed_payloads: "typed-payloads",
    pool_ask: "pool-ask",
    pool_messages: "pool-messages",
    sequence_tenants: "sequence-tenants",
    sequence_pipeline: "sequence-pipeline",
    graceful_shutdown: "graceful-shutdown",
    background_jobs: "background-jobs",
    flow: "flow",
    couch_style: "couch-style",
    jobs_on_pool: "jobs-on-pool",
}
