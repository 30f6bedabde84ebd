//! `scripts/redis-server` on a machine without a server: its allowed and forbidden ways to get one.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/redis-server");

/// The script's own tools. This machine has no others, except those that record their calls.
const TOOLS: &[&str] = &[
    "bash", "sh", "env", "cat", "chmod", "dirname", "flock", "grep", "mkdir", "mktemp", "mv", "readlink",
    "rm", "sed", "sort",
];

/// Programs that could install, enable or start something.
const CALLED: &[&str] = &[
    "apt-get",
    "apt",
    "apt-cache",
    "dpkg",
    "dpkg-query",
    "sudo",
    "su",
    "systemctl",
    "service",
    "update-rc.d",
    "invoke-rc.d",
    "deb-systemd-helper",
];

/// A machine with a package manager that records its calls.
struct Machine {
    dir: TempDir,
}

impl Machine {
    /// `mirror`: whether packages can be downloaded.
    fn new(user: u32, mirror: bool) -> Self {
        let machine = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(machine.path("bin")).unwrap();
        for tool in TOOLS {
            let path = std::env::split_paths(&std::env::var_os("PATH").unwrap())
                .map(|dir| dir.join(tool))
                .find(|path| path.is_file())
                .unwrap_or_else(|| panic!("no {tool}"));
            symlink(path, machine.path("bin").join(tool)).unwrap();
        }
        for name in CALLED {
            machine.program(name, "");
        }
        machine.program("id", &format!("echo {user}"));
        if mirror {
            machine
                .program("apt-get", r#"case " $* " in *" download "*) echo deb >redis-server.deb ;; esac"#);
            // The package has a server that can print its version.
            machine.program(
                "dpkg",
                r#"[ "$1" = -x ] || exit 0
                mkdir -p "$3/usr/bin"
                printf '#!/bin/sh\necho Redis server v=7.0.0\n' >"$3/usr/bin/redis-server"
                chmod +x "$3/usr/bin/redis-server""#,
            );
        } else {
            machine.program("apt-get", "echo E: no network >&2; exit 100");
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A program that records its call before it does this.
    fn program(&self, name: &str, does: &str) {
        let path = self.path("bin").join(name);
        let calls = self.path("calls");
        fs::write(&path, format!("#!/bin/sh\necho {name} \"$@\" >>'{}'\n{does}\n", calls.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn fetch(&self) -> Output {
        Command::new(self.path("bin").join("bash"))
            .args([SCRIPT, "--path"])
            .env_clear()
            .env("PATH", self.path("bin"))
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.dir.path())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn calls(&self) -> Vec<String> {
        fs::read_to_string(self.path("calls")).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// The calls that do more than look, download or unpack.
    fn forbidden(&self) -> Vec<String> {
        let harmless = |call: &str| {
            let words: Vec<_> = call.split_whitespace().collect();
            match words[0] {
                "id" | "apt-cache" | "dpkg-query" => true,
                "dpkg" => words[1] == "-x",
                // Package lists may be read anew into a folder of the script's own.
                "apt-get" => {
                    words.contains(&"download")
                        || (words.contains(&"update")
                            && words.iter().any(|word| word.starts_with("Dir::State::Lists=")))
                }
                _ => false,
            }
        };
        self.calls().into_iter().filter(|call| !harmless(call)).collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_server_is_unpacked_into_the_cache_and_never_installed() {
    for user in [0, 1000] {
        let machine = Machine::new(user, true);
        let output = machine.fetch();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let binary = machine.path("home").join(".cache/tenure/redis/redis-server");
        assert_eq!(Path::new(text(&output.stdout).trim()), binary);
        assert!(binary.is_file());
        assert!(machine.calls().iter().any(|call| call.contains(" download ")), "{:?}", machine.calls());
        assert_eq!(machine.forbidden(), Vec::<String>::new(), "as user {user}");
    }
}

#[test]
fn without_packages_it_installs_nothing_and_names_the_next_step() {
    for user in [0, 1000] {
        let machine = Machine::new(user, false);
        let output = machine.fetch();
        assert!(!output.status.success());
        assert_eq!(text(&output.stdout), "", "no path");
        let said = text(&output.stderr);
        assert!(said.contains("install -y redis-server"), "{said}");
        assert!(said.contains("export REDIS_SERVER_BIN="), "{said}");
        assert_eq!(machine.forbidden(), Vec::<String>::new(), "as user {user}");
    }
}
