//! Control groups: where the machine lets us, each job has one. The kernel kills a whole group at once, however fast its
//! processes fork.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::Pid;

/// How often a group that is still in use is removed again. Its last process may not have been collected.
const TRIES: u32 = 50;

/// A group of a node's jobs.
#[derive(Clone, Debug)]
pub(crate) struct Groups(PathBuf);

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
        Ok(Path::new(mount).join(own).join(format!("tenure-{}", guard.as_raw_pid())))
    }

    /// Makes the group of this guard's jobs.
    ///
    /// # Errors
    /// There is no cgroup version 2 in which this process may make groups and kill them.
    pub(crate) fn make(guard: Pid) -> io::Result<Self> {
        let groups = Self(Self::place(guard)?);
        groups.remove_forgotten();
        fs::create_dir(&groups.0)?;
        if !groups.0.join("cgroup.kill").exists() {
            groups.remove();
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel cannot kill a cgroup"));
        }
        Ok(groups)
    }

    /// Removes the groups that guards have left which were killed. They are empty, or they stay.
    fn remove_forgotten(&self) {
        let beside = self.0.parent().and_then(|place| fs::read_dir(place).ok());
        for entry in beside.into_iter().flatten().flatten() {
            let name = entry.file_name();
            let guard = name.to_str().and_then(|name| name.strip_prefix("tenure-")?.parse::<u32>().ok());
            if guard.is_some_and(|guard| !Path::new(&format!("/proc/{guard}")).exists()) {
                Self(entry.path()).remove();
            }
        }
    }

    /// Those of a node that has ended.
    pub(crate) fn of(guard: Pid) -> Option<Self> {
        let place = Self::place(guard).ok()?;
        place.exists().then_some(Self(place))
    }

    /// Makes the group of a job.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn add(&self, job: u64) -> io::Result<Group> {
        let group = self.0.join(job.to_string());
        fs::create_dir(&group)?;
        Ok(Group(group))
    }

    /// Kills all that is in it.
    pub(crate) fn kill(&self) {
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
    }

    /// Removes it, with the groups in it. Nothing of them runs any more.
    pub(crate) fn remove(&self) {
        let groups = fs::read_dir(&self.0).into_iter().flatten().flatten();
        for group in groups.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            remove(&group.path());
        }
        remove(&self.0);
    }
}

/// The group of a job: removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Group(PathBuf);

impl Group {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        remove(&self.0);
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
    fn the_mount_of_cgroup_2_is_found_among_others() {
        let line = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
        assert_eq!(mount_of(line), Some("/sys/fs/cgroup/unified"));
        assert_eq!(mount_of("35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"), None);
        assert_eq!(mount_of("rubbish"), None);
    }
}
