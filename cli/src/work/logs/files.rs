//! A file for each key. A file that is full becomes `KEY.log.1`, and takes the place of the one before.

use std::collections::HashMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ring::digest::{SHA256, digest};

use super::Line;
use super::writer::To;

/// How many files may be open at once.
const OPEN: usize = 256;
/// How often it is seen whether a file still has its name.
const LOOK: Duration = Duration::from_secs(1);
/// How much of a long name is kept, and how many bytes of a hash stand for the rest.
const NAME_MAX: usize = 200;
const HASH: usize = 16;

pub(super) struct Files {
    folder: PathBuf,
    max: u64,
    open: HashMap<Vec<u8>, Open>,
}

/// A file that is written to.
struct Open {
    file: File,
    len: u64,
    looked: Instant,
}

impl Files {
    /// Files in this folder, each of at most `max` bytes.
    pub(super) fn new(folder: PathBuf, max: u64) -> Self {
        Self { folder, max, open: HashMap::new() }
    }

    fn append(&mut self, key: &[u8], line: &[u8]) -> io::Result<()> {
        let name = file_name(key);
        let path = self.folder.join(format!("{name}.log"));
        if self.open.get_mut(key).is_some_and(|open| !open.has_name(&path)) {
            self.open.remove(key);
        }
        if !self.open.contains_key(key) {
            if self.open.len() >= OPEN {
                self.open.clear();
            }
            let open = match open(&path) {
                // Somebody has removed the folder.
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    fs::create_dir_all(&self.folder)?;
                    open(&path)?
                }
                opened => opened?,
            };
            self.open.insert(key.to_vec(), open);
        }
        let Some(Open { file, len, .. }) = self.open.get_mut(key) else { return Ok(()) };
        let bytes = [line, b"\n"].concat();
        if *len > 0 && *len + bytes.len() as u64 > self.max {
            match fs::rename(&path, self.folder.join(format!("{name}.log.1"))) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let anew = open(&path)?;
            (*file, *len) = (anew.file, anew.len);
        }
        *len += bytes.len() as u64;
        file.write_all(&bytes)
    }
}

impl To for Files {
    fn write(&mut self, line: &Line) -> io::Result<()> {
        let key = &line.source.name;
        // After an error the next line opens the file anew: somebody may have removed the file to make room.
        self.append(key, &line.bytes).inspect_err(|_| drop(self.open.remove(key)))
    }

    fn is_per_key(&self) -> bool {
        true
    }
}

impl Open {
    /// Whether the file still has this name. Looks once in a while, for somebody may remove or rename the file.
    fn has_name(&mut self, path: &Path) -> bool {
        if self.looked.elapsed() < LOOK {
            return true;
        }
        self.looked = Instant::now();
        let id = |file: &Metadata| (file.dev(), file.ino());
        match (fs::metadata(path), self.file.metadata()) {
            (Ok(named), Ok(own)) => id(&named) == id(&own),
            (Err(error), _) => error.kind() != ErrorKind::NotFound,
            _ => true,
        }
    }
}

fn open(path: &Path) -> io::Result<Open> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let len = file.metadata()?.len();
    Ok(Open { file, len, looked: Instant::now() })
}

/// A key as the name of a file. Different keys have different names.
fn file_name(key: &[u8]) -> String {
    use std::fmt::Write;
    let mut name = String::new();
    for byte in key {
        if byte.is_ascii_alphanumeric() || (b"_-.@".contains(byte) && !name.is_empty()) {
            name.push(char::from(*byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(name, "%{byte:02x}");
        }
    }
    if name.len() > NAME_MAX {
        name.truncate(NAME_MAX);
        // No name without a hash has this mark.
        name.push('~');
        for byte in &digest(&SHA256, key).as_ref()[..HASH] {
            let _ = write!(name, "{byte:02x}");
        }
    }
    name
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;

    use super::*;

    fn world(max: u64) -> (tempfile::TempDir, Files) {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path().into(), max);
        (folder, files)
    }

    /// Lets the next write look at the name of the file.
    fn later(files: &mut Files) {
        for open in files.open.values_mut() {
            open.looked -= LOOK;
        }
    }

    #[test]
    fn no_two_keys_have_one_file() {
        assert_eq!(file_name(b"../a/b c"), "%2e.%2fa%2fb%20c");
        assert_eq!(file_name(b"eu-1.acme@x"), "eu-1.acme@x");
        let long = |last: u8| [vec![b'x'; 511], vec![last]].concat();
        let keys = [long(b'y'), long(b'z'), vec![b'x'; 200], vec![0xff], b"\\xff".to_vec(), b"%ff".to_vec()];
        let names: HashSet<_> = keys.iter().map(|key| file_name(key)).collect();
        assert_eq!(names.len(), keys.len());
        assert!(names.iter().all(|name| format!("{name}.log.1").len() <= 255));
    }

    #[test]
    fn a_full_file_makes_room_for_a_new_one() {
        let (folder, mut files) = world(10);
        for text in ["123456", "abcdef", "longer than all"] {
            files.append(b"k", text.as_bytes()).unwrap();
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!((read("k.log"), read("k.log.1")), ("longer than all\n".into(), "abcdef\n".into()));
    }

    #[test]
    fn a_file_that_somebody_takes_away_is_made_anew() {
        for is_renamed in [true, false] {
            let (folder, mut files) = world(1_000);
            let path = folder.path().join("k.log");
            files.append(b"k", b"before").unwrap();
            if is_renamed {
                fs::rename(&path, folder.path().join("rotated")).unwrap();
            } else {
                fs::remove_file(&path).unwrap();
            }
            later(&mut files);
            files.append(b"k", b"after").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "after\n");
        }
    }

    #[test]
    fn a_folder_that_somebody_takes_away_is_made_anew() {
        let (folder, mut files) = world(1_000);
        files.append(b"k", b"before").unwrap();
        fs::remove_dir_all(folder.path()).unwrap();
        later(&mut files);
        files.append(b"k", b"after").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("k.log")).unwrap(), "after\n");
    }

    #[test]
    fn a_full_file_without_its_name_costs_no_line() {
        let (folder, mut files) = world(10);
        files.append(b"k", b"123456").unwrap();
        fs::remove_file(folder.path().join("k.log")).unwrap();
        for text in ["abcdef", "ghijkl"] {
            files.append(b"k", text.as_bytes()).unwrap();
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!((read("k.log"), read("k.log.1")), ("ghijkl\n".into(), "abcdef\n".into()));
    }
}
