//! Control groups: where the machine lets us, each job has one. The kernel kills a whole group at once, however fast its
//! processes fork. Where the machine also lets us have the memory controller, the kernel bounds a job's memory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::Pid;

/// How often a group that is still in use is removed again. Its last process may not have been collected.
const TRIES: u32 = 50;

/// How the names of groups begin whose guards are in this pid namespace. Guards of others may share the place, and have the
/// same numbers, which say nothing here.
///
/// # Errors
/// There are no such namespaces.
fn names() -> io::Result<String> {
    let namespace = fs::read_link("/proc/self/ns/pid")?;
    let number: String = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    Ok(format!("tenure-{number}-"))
}

/// A group of a node's jobs.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    place: PathBuf,
    /// The kernel can bound the memory of each group in it.
    bounds_memory: bool,
}

impl Groups {
    /// Where the groups of this guard's jobs are.
    ///
    /// # Errors
    /// There is no cgroup version 2 here, or its files are unreadable.
    fn place(guard: Pid) -> io::Result<PathBuf> {
        let (mounts, own) =
            (fs::read_to_string("/proc/self/mountinfo")?, fs::read_to_string("/proc/self/cgroup")?);
        let none = || io::Error::new(io::ErrorKind::Unsupported, "there is no cgroup version 2");
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).ok_or_else(none)?;
        let mount = mounts.lines().find_map(mount_of).ok_or_else(none)?;
        Ok(Path::new(mount).join(own).join(format!("{}{}", names()?, guard.as_raw_pid())))
    }

    /// Makes the group of this guard's jobs.
    ///
    /// # Errors
    /// There is no cgroup version 2 in which this process may make groups and kill them.
    pub(crate) fn make(guard: Pid) -> io::Result<Self> {
        let mut groups = Self::at(Self::place(guard)?);
        groups.remove_forgotten();
        // A guard that had this number before has left it.
        groups.remove();
        fs::create_dir(&groups.place)?;
        if !groups.place.join("cgroup.kill").exists() {
            groups.remove();
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel cannot kill a cgroup"));
        }
        // It is refused unless the group above hands the controller on.
        groups.bounds_memory = fs::write(groups.place.join("cgroup.subtree_control"), "+memory").is_ok();
        Ok(groups)
    }

    fn at(place: PathBuf) -> Self {
        Self { place, bounds_memory: false }
    }

    /// Removes the groups that guards have left which were killed. They are empty, or they stay. Those of
    /// other pid namespaces stay, too: nobody here sees whether their guards live.
    fn remove_forgotten(&self) {
        let Ok(names) = names() else { return };
        let beside = self.place.parent().and_then(|place| fs::read_dir(place).ok());
        for entry in beside.into_iter().flatten().flatten() {
            let name = entry.file_name();
            let guard = name.to_str().and_then(|name| name.strip_prefix(&*names)?.parse::<u32>().ok());
            if guard.is_some_and(|guard| !Path::new(&format!("/proc/{guard}")).exists()) {
                Self::at(entry.path()).remove();
            }
        }
    }

    /// Those of a node that has ended.
    pub(crate) fn of(guard: Pid) -> Option<Self> {
        let place = Self::place(guard).ok()?;
        place.exists().then(|| Self::at(place))
    }

    /// Makes the group of a job, with at most this much memory if the kernel can bound it here.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn add(&self, job: u64, memory: Option<u64>) -> io::Result<Group> {
        let path = self.place.join(job.to_string());
        fs::create_dir(&path)?;
        let mut group = Group { path, bounds_memory: false };
        if let Some(memory) = memory.filter(|_| self.bounds_memory) {
            group.bound(memory)?;
        }
        Ok(group)
    }

    /// Kills all that is in it.
    pub(crate) fn kill(&self) {
        let _ = fs::write(self.place.join("cgroup.kill"), "1");
    }

    /// Removes it, with the groups in it. Nothing of them runs any more.
    pub(crate) fn remove(&self) {
        let groups = fs::read_dir(&self.place).into_iter().flatten().flatten();
        for group in groups.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            remove(&group.path());
        }
        remove(&self.place);
    }
}

/// The group of a job: removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Group {
    path: PathBuf,
    bounds_memory: bool,
}

impl Group {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bounds the memory of all its processes together. When they need more, the kernel kills them all.
    fn bound(&mut self, memory: u64) -> io::Result<()> {
        fs::write(self.path.join("memory.max"), memory.to_string())?;
        // A kernel without swap has no bound for it.
        let _ = fs::write(self.path.join("memory.swap.max"), "0");
        fs::write(self.path.join("memory.oom.group"), "1")?;
        self.bounds_memory = true;
        Ok(())
    }

    /// Whether the kernel bounds its memory.
    pub(crate) fn bounds_memory(&self) -> bool {
        self.bounds_memory
    }

    /// Whether the kernel has killed in it because its own bound was reached.
    pub(crate) fn was_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.path.join("memory.events")).unwrap_or_default();
        self.bounds_memory && has_killed(&events)
    }
}

/// Whether these events of a group's memory tell of a kill by its own bound. A machine without memory kills in it, too, and then
/// counts no `oom` of the group.
fn has_killed(events: &str) -> bool {
    let has = |name: &str| {
        let count =
            events.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<u64>().ok());
        count.is_some_and(|count| count > 0)
    };
    has("oom") && has("oom_kill")
}

impl Drop for Group {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// One that stays is empty, and its node's guard tries again.
fn remove(group: &Path) {
    for _ in 0..TRIES {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                thread::sleep(Duration::from_millis(1));
            }
            _ => return,
        }
    }
}

/// Where this line mounts cgroup version 2, if it does.
fn mount_of(line: &str) -> Option<&str> {
    let (mount, kind) = line.split_once(" - ")?;
    if kind.split(' ').next() == Some("cgroup2") { mount.split(' ').nth(4) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_for_want_of_memory_is_read_from_the_events() {
        assert!(has_killed("low 0\nhigh 0\nmax 9\noom 1\noom_kill 3\noom_group_kill 1\n"));
        assert!(!has_killed("low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\n"), "the machine had no memory");
        assert!(!has_killed("low 0\nmax 9\noom 1\noom_kill 0\noom_group_kill 0\n") && !has_killed(""));
    }

    #[test]
    fn the_mount_of_cgroup_2_is_found_among_others() {
        let line = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
        assert_eq!(mount_of(line), Some("/sys/fs/cgroup/unified"));
        assert_eq!(mount_of("35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"), None);
        assert_eq!(mount_of("rubbish"), None);
    }
}
