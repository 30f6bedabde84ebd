//! The pages of the documentation that show the command: their commands are run in order, and print what stands there but for
//! numbers.

use std::path::Path;

use snapbox::assert_data_eq;
use tenure_pool::{Job, JobSpec, JobState, RestartPolicy};
use tenure_testing::eventually;

use crate::world::{PATIENCE, World};

/// The commands of a page, each with what it prints.
fn commands(page: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/how-to").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let mut commands: Vec<(String, String)> = Vec::new();
    for block in text.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for line in block.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                commands.push((command.to_owned(), String::new()));
            } else if let Some((_, output)) = commands.last_mut() {
                output.push_str(line);
                output.push('\n');
            }
        }
    }
    commands
}

/// The same for all numbers, lengths of time and widths of columns.
fn plain(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let words = line.split_whitespace().map(|word| {
            let mut plain = String::new();
            for c in word.chars() {
                match c {
                    '0'..='9' if plain.ends_with('#') => {}
                    '0'..='9' => plain.push('#'),
                    c => plain.push(c),
                }
            }
            let plain = plain.replace("#ms", "#s");
            if matches!(&*plain, "+#" | "-#") { "#".to_owned() } else { plain }
        });
        let line = words.collect::<Vec<_>>().join(" ");
        lines.push(line.replace("# ms", "# s"));
    }
    lines.join("\n")
}

/// The words of a command line, as a shell takes them.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in command.chars() {
        match c {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    words
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_for_the_person_on_call_shows_what_is_printed() {
    let world = World::new().await;
    for _ in 0..2 {
        let run = |job: Job| async move {
            if job.payload().as_ref() == b"bad" {
                return Err::<(), tenure_pool::BoxError>("out of stock".into());
            }
            job.cancelled().await;
            Ok(())
        };
        let worker = world.node.add_worker(tenure_pool::run(run)).await.unwrap();
        eventually(PATIENCE, "the worker", async || worker.info().is_some_and(|info| info.slot.is_some()))
            .await;
    }
    world.node.dispatch(JobSpec::new("zenith", "").restart(RestartPolicy::OnFailure)).await.unwrap();
    // A pause that is long enough for all that looks at it: after some attempts in a row.
    world.node.dispatch(JobSpec::new("acme", "bad").restart(RestartPolicy::OnFailure)).await.unwrap();
    for (command, expected) in commands("on-call.md") {
        let words = words(&command);
        let [program, args @ ..] = &*words else { panic!("{command}") };
        if program == "export" {
            continue;
        }
        assert_eq!(program, "tenure");
        if command == "tenure ls --failing" {
            eventually(PATIENCE, "the job to wait for its next attempt", async || {
                let job = world.node.inspect().job("acme").await.unwrap();
                job.is_some_and(|job| job.state == JobState::Queued && job.attempts >= 4)
            })
            .await;
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let done = world.run(&args).await.success();
        let printed = String::from_utf8_lossy(&done.get_output().stdout).into_owned();
        assert_data_eq!(
            format!("$ {command}\n{}", plain(&printed)),
            format!("$ {command}\n{}", plain(&expected))
        );
    }
}
