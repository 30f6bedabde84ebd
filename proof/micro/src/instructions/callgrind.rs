//! Runs each case under callgrind, and reads the number of instructions.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tenure_micro::Bench;

/// The C library has versions of some functions for each kind of processor. These settings select the plainest
/// everywhere.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX2,-AVX,-AVX_Fast_Unaligned_Load,-AVX512F,-AVX512VL,-AVX512BW,-ERMS,-FSRM,\
     -BMI2,-SSE4_2,-SSSE3,-MOVBE";

/// The instructions of each case, in the order of the cases.
pub(crate) fn count_all(benches: &[Bench]) -> Result<Vec<u64>, String> {
    let folder = std::env::temp_dir().join(format!("tenure-instructions.{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let counted = count_in(&folder, benches);
    // Nothing that remains in it is needed.
    let _ = fs::remove_dir_all(&folder);
    counted
}

fn count_in(folder: &Path, benches: &[Bench]) -> Result<Vec<u64>, String> {
    let next = AtomicUsize::new(0);
    let counts = Mutex::new(Vec::with_capacity(benches.len()));
    let work = || {
        while let Some((at, bench)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            benches.get(at).map(|bench| (at, bench))
        } {
            let count = count(folder, bench.name);
            counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((at, count));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut counts = counts.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    counts.sort_unstable_by_key(|(at, _)| *at);
    counts.into_iter().map(|(_, count)| count).collect()
}

fn count(folder: &Path, name: &str) -> Result<u64, String> {
    let program = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let out = folder.join(name);
    let mut file = std::ffi::OsString::from("--callgrind-out-file=");
    file.push(&out);
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--toggle-collect=*Counted*measure*"])
        .arg(file)
        .arg(program)
        .args(["run", name])
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("GLIBC_TUNABLES", TUNABLES)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    if !output.status.success() {
        return Err(format!("{name}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    let text = fs::read_to_string(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    total(&text).filter(|total| *total > 0).ok_or_else(|| format!("{name}: callgrind has counted nothing"))
}

/// The total in callgrind's output.
fn total(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("totals: "));
    lines.next_back()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_read() {
        assert_eq!(total("events: Ir\nfn=(1) x\n3 4\n\ntotals: 1234\n"), Some(1234));
        assert_eq!(total("events: Ir\n"), None);
    }
}
