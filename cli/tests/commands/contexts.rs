//! Where the command takes its pool from.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::world::{World, assert, printed, said, status, tenure_with_home};

#[test]
fn contexts_are_set_used_listed_and_removed() {
    let home = tempfile::tempdir().unwrap();
    let tenure = |args: &[&str]| tenure_with_home(home.path(), args).assert();
    tenure(&["ctx", "set", "prod", "--url", "redis://:secret@r:1", "--pool", "feeds"]).success();
    tenure(&["ctx", "set", "test", "--pool", "try"]).success();
    tenure(&["ctx", "use", "prod"]).success();
    let listed = "NAME  IN USE  POOL   URL\nprod  yes     feeds  redis://:***@r:1\ntest          try    -\n";
    assert_eq!(printed(&tenure(&["ctx", "ls"]).success()), listed);
    let file = home.path().join(".config/tenure/config.toml");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    tenure(&["ctx", "rm", "prod"]).success();
    assert_eq!(printed(&tenure(&["ctx", "ls", "-o", "name"]).success()), "test\n");
    assert_eq!(status(&tenure(&["ctx", "use", "prod"])), Some(3));
    assert_eq!(status(&tenure(&["ctx", "set", "empty"])), Some(2));
}

#[test]
fn a_damaged_file_is_named_and_its_secrets_are_not_shown() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(".config/tenure");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.toml"), "[context.prod]\nurl = 'redis://:secret@r'\nrubbish = 1\n")
        .unwrap();
    let done = tenure_with_home(home.path(), &["ls"]).assert();
    assert_eq!(status(&done), Some(2));
    assert!(said(&done).contains("config.toml cannot be read: unknown field `rubbish`"), "{}", said(&done));
    assert!(!said(&done).contains("secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flag_beats_a_named_context_beats_the_environment() {
    let world = World::new().await;
    let home = tempfile::tempdir().unwrap();
    let url = world.server.url();
    let set = |name, pool| {
        let args = ["ctx", "set", name, "--pool", pool, "--url", &url];
        tenure_with_home(home.path(), &args).assert().success();
    };
    set("used", "of-used");
    set("named", "of-named");
    tenure_with_home(home.path(), &["ctx", "use", "used"]).assert().success();
    let sought = async |args: &[&str], environment: &[(&str, &str)]| {
        let args: Vec<_> = ["ls"].iter().chain(args).copied().collect();
        let command = tenure_with_home(home.path(), &args).envs(environment.iter().copied());
        said(&assert(command).await)
    };
    let of = |pool: &str| format!("tenure: there is no pool {pool:?}; nothing was written\n");
    assert_eq!(sought(&[], &[]).await, of("of-used"));
    assert_eq!(sought(&[], &[("TENURE_CONTEXT", "named")]).await, of("of-named"));
    let variable = ("TENURE_POOL", "of-variable");
    assert_eq!(sought(&[], &[("TENURE_CONTEXT", "named"), variable]).await, of("of-variable"));
    assert_eq!(sought(&["--context", "named"], &[variable]).await, of("of-named"));
    assert_eq!(sought(&["--context", "named", "-p", "of-flag"], &[variable]).await, of("of-flag"));
    assert_eq!(sought(&["--context", "absent"], &[]).await, "tenure: there is no context \"absent\"\n");
}
