//! Many jobs at once: `tenure ls` reads them in pages.

use std::time::{Duration, Instant};

use tenure_pool::{JobInfo, JobSpec, JobState, Node};
use tenure_testing::eventually;

use crate::world::{PATIENCE, World, printed};

fn jobs(count: usize) -> impl Iterator<Item = JobSpec> + Send {
    (0..count).map(|number| JobSpec::new(format!("key-{number}"), "x"))
}

/// Nothing of the pool runs until there is a worker.
async fn submit(node: &Node, count: usize) {
    let submitted = node.submit_many(jobs(count)).deadline(PATIENCE).await;
    assert!(submitted.iter().all(Result::is_ok));
}

/// The number of commands that the server has run, those within scripts included.
fn commands(world: &World) -> usize {
    let stats: String = world.server.query(redis::cmd("INFO").arg("stats")).unwrap();
    let of = "total_commands_processed:";
    stats.lines().find_map(|line| line.strip_prefix(of)).unwrap().trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_listed_with_a_few_commands_for_each_page() {
    const FEW: usize = 100;
    const MANY: usize = 6_000;
    /// A page has that many places of the hash, of which at least half are taken. It is read with `HSCAN`, and then its
    /// waiting jobs with a script of two commands.
    const PAGE: usize = 512;
    const OF_A_PAGE: usize = 4;
    let mut spent = Vec::new();
    for count in [FEW, MANY] {
        let world = World::new().await;
        submit(&world.node, count).await;
        // Only the command talks to the server from here on.
        world.node.close().await.unwrap();
        for args in [&["ls", "-o", "name"][..], &["ls", "--sort", "none", "-o", "name"]] {
            let before = commands(&world);
            let keys = printed(&world.run(args).await.success());
            spent.push(commands(&world) - before);
            assert_eq!(keys.lines().count(), count, "{args:?}");
        }
    }
    let [few, few_unsorted, many, many_unsorted] = spent[..] else { panic!("{spent:?}") };
    let pages = 2 * MANY / PAGE + 1;
    for (few, many) in [(few, many), (few_unsorted, many_unsorted)] {
        assert!(many <= few + OF_A_PAGE * pages, "{spent:?}");
    }
}

/// Lists all jobs in some formats, and prints how long each takes. Returns the longest time.
async fn list(world: &World, state: &str, filter: &[&str], jobs: usize) -> Duration {
    let mut longest = Duration::ZERO;
    // A row has a line, and a format some lines around them.
    let formats = [("table", "key", 1), ("json", "key", 2), ("jsonl", "none", 0)];
    for (format, sort, around) in formats {
        let args = [&["ls", "-o", format, "--sort", sort], filter].concat();
        let begun = Instant::now();
        let listed = printed(&world.run(&args).await.success());
        let took = begun.elapsed();
        println!("{} of {jobs} {state} jobs: {took:?}", args.join(" "));
        assert_eq!(listed.lines().count(), jobs + around, "{args:?}");
        longest = longest.max(took);
    }
    longest
}

/// Prints how long each list takes, and fails on its bound.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a check of speed: run it alone, with --release"]
async fn a_hundred_thousand_jobs_are_listed_within_three_seconds() {
    const JOBS: usize = 100_000;
    const BOUND: Duration = Duration::from_secs(3);
    let world = World::shaped(|builder| builder.max_queued(JOBS as u64)).await;
    submit(&world.node, JOBS).await;
    let mut longest = list(&world, "queued", &[], JOBS).await;
    let worker = world.add_worker().await;
    eventually(PATIENCE, "all jobs to run", async || {
        let figures = world.node.inspect().figures().await.unwrap();
        figures.jobs == JOBS as u64 && figures.queued == 0 && figures.waiting == 0
    })
    .await;
    for filter in [&[][..], &["--worker", &worker.id.to_string()]] {
        longest = longest.max(list(&world, "running", filter, JOBS).await);
    }
    assert!(longest < BOUND, "a list took {longest:?}");
}

/// They are told together, so the history keeps what else there was to tell.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes long: `make command-bounds` runs it"]
async fn ten_thousand_keys_that_move_at_once_make_few_events() {
    const JOBS: usize = 10_000;
    const FEW: usize = 200;
    let world = World::new().await;
    let leaver = world.another("n2").await;
    crate::world::add_worker(&leaver).await;
    submit(&world.node, JOBS).await;
    let all_run = async |on: &str| {
        let jobs = world.node.inspect().jobs().await.unwrap();
        let run = |job: &JobInfo| job.state == JobState::Running && job.node.as_deref() == Some(on);
        jobs.len() == JOBS && jobs.iter().all(run)
    };
    eventually(PATIENCE, "all jobs to run", async || all_run("n2").await).await;
    world.node.operate().cordon("n1").await.unwrap();
    world.add_worker().await;
    world.node.operate().uncordon("n1").await.unwrap();

    let history =
        || -> usize { world.server.query(redis::cmd("XLEN").arg("tenure:{feeds}:history")).unwrap() };
    let before = history();
    world.run(&["drain", "n2", "--yes", "--wait"]).await.success();
    eventually(PATIENCE, "all jobs to run there", async || all_run("n1").await).await;
    let told = async || {
        let moved = world.json(&["events", "--kind", "moved"]).await;
        let moved = moved["items"].as_array().unwrap().clone();
        let jobs: u64 = moved.iter().map(|event| event["count"].as_u64().unwrap()).sum();
        (jobs == JOBS as u64).then_some(moved.len()).ok_or(jobs)
    };
    let events = eventually(PATIENCE, "all moves to be told", told).await;
    let entries = history() - before;
    println!("{JOBS} moves make {events} events in {entries} entries");
    assert!(events < FEW && entries < FEW, "{events} events in {entries} entries");
}
