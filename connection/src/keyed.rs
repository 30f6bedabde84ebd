//! The scripts of a crate: one table of its Lua files.

use std::sync::OnceLock;

use tenure_steps::{File, Parts};

use crate::{Call, Script};

/// A Lua file, with the text and the script. A process makes both once.
#[derive(Debug)]
pub struct ScriptFile {
    file: File,
    text: OnceLock<String>,
    script: OnceLock<Script>,
}

impl ScriptFile {
    /// Nothing is made of the file yet.
    pub const fn new(file: File) -> Self {
        Self { file, text: OnceLock::new(), script: OnceLock::new() }
    }

    /// The file.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// The text with its parts, made by the first call.
    pub fn text(&self, parts: &Parts) -> &str {
        self.text.get_or_init(|| parts.assemble(&self.file))
    }

    /// The script with the text, under the file's name. All callers share the script.
    pub fn script(&self, parts: &Parts) -> Script {
        self.script.get_or_init(|| Script::new(self.file.script(), self.text(parts))).clone()
    }
}

/// A script with the keys of every call.
#[derive(Clone, Debug)]
pub struct KeyedScript {
    script: Script,
    keys: Vec<String>,
}

impl KeyedScript {
    /// The script, with these keys ahead of those of a call.
    pub fn new(script: Script, keys: Vec<String>) -> Self {
        Self { script, keys }
    }

    /// The script.
    pub fn script(&self) -> &Script {
        &self.script
    }

    /// The keys of every call.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// Prepares a call; `more` are the keys behind those of every call.
    pub fn call(&self, more: &[String]) -> Call {
        let mut keys = Vec::with_capacity(self.keys.len() + more.len());
        keys.extend(self.keys.iter().chain(more).map(String::as_str));
        self.script.call(&keys)
    }
}

/// Declares the scripts of a crate, whose files lie in one folder. The folder is relative to the caller's file.
///
/// A `struct` has a [`KeyedScript`] of each file `<script>-<number of KEYS>.lua`. `made_by` fills the struct, `all` lists
/// the scripts, and `FILES` their files. `answers` names the [`Letters`](tenure_steps::Letters) of each list of a script's answer.
///
/// ```ignore
/// scripts! {
///     /// All scripts of one pool.
///     pub(super) struct Scripts in "../../lua/" { join = "join-7", steer = "steer-9+" answers SteerReply }
/// }
/// ```
///
/// A `static` has scripts without keys: the name, the first line unless the file begins with a first line, and the files in
/// order. `ALL` lists the scripts for tests.
///
/// ```ignore
/// scripts! {
///     pub(crate) static in "lua/";
///     READ = "rmap.read": "read-2+";
///     SET = "rmap.set" ["#!lua"]: "change", "own", "set-3";
/// }
/// ```
#[macro_export]
macro_rules! scripts {
    (
        $(#[$meta:meta])*
        $vis:vis struct $scripts:ident in $folder:literal {
            $($name:ident = $file:literal $(answers $($letters:ty)|+)?),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug)]
        $vis struct $scripts {
            $($vis $name: $crate::KeyedScript,)+
        }

        #[allow(dead_code, reason = "only tests and proofs read all files and scripts")]
        impl $scripts {
            $vis const FILES: &'static [$crate::File] = &[
                $($crate::File::new($file, include_str!(concat!($folder, $file, ".lua")))
                    $(.answering(&[$(<$letters as $crate::Letters>::LETTERS),+]))?,)+
            ];

            fn made_by(mut make: impl FnMut(&'static $crate::ScriptFile) -> $crate::KeyedScript) -> Self {
                Self {
                    $($name: {
                        const TEXT: &str = include_str!(concat!($folder, $file, ".lua"));
                        static FILE: $crate::ScriptFile =
                            $crate::ScriptFile::new($crate::File::new($file, TEXT));
                        make(&FILE)
                    },)+
                }
            }

            $vis fn all(&self) -> Vec<&$crate::Script> {
                vec![$(self.$name.script(),)+]
            }
        }
    };
    (
        $vis:vis static in $folder:literal;
        $($(#[$meta:meta])* $name:ident = $script:literal $([$first:literal])?: $($file:literal),+;)+
    ) => {
        $(
            $(#[$meta])*
            $vis static $name: ::std::sync::LazyLock<$crate::Script> = ::std::sync::LazyLock::new(|| {
                let source = concat!($($first, "\n",)? $(include_str!(concat!($folder, $file, ".lua"))),+);
                $crate::Script::new($script, source)
            });
        )+

        #[cfg(test)]
        const ALL: &[&::std::sync::LazyLock<$crate::Script>] = &[$(&$name),+];
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_assembled_and_hashed_once() {
        static ECHO: ScriptFile = ScriptFile::new(File::new("echo-1", "#!lua\nreturn KEYS[1]\n"));
        let script = ECHO.script(&Parts(&[]));
        assert_eq!((script.name(), script.source()), ("echo", "#!lua\nreturn KEYS[1]\n"));
        assert!(std::ptr::eq(ECHO.script(&Parts(&[])).source(), script.source()));
    }

    #[test]
    fn a_call_has_the_keys_of_every_call_first() {
        let keyed = KeyedScript::new(Script::new("echo", "return KEYS[1]"), vec!["a".into(), "b".into()]);
        let packed = keyed.call(&["c".to_owned()]).command().get_packed_command();
        assert!(
            packed.ends_with(b"$1\r\n3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"),
            "{}",
            packed.escape_ascii()
        );
    }
}
