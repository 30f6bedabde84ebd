//! Contexts: pools by name, in `$XDG_CONFIG_HOME/tenure/config.toml`.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::exit::{Code, Failure};

/// A pool by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    /// The URL of Redis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    /// The pool's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pool: Option<String>,
}

/// All contexts, as the file has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contexts {
    /// The one in use.
    #[serde(rename = "use", skip_serializing_if = "Option::is_none")]
    pub(crate) used: Option<String>,
    #[serde(default, rename = "context", skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) by_name: BTreeMap<String, Context>,
}

impl Contexts {
    /// Reads the file. Without one there are no contexts.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read() -> Result<Self, Failure> {
        let Some(path) = path() else { return Ok(Self::default()) };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(unreadable(&path, &error)),
        };
        // The error's own text would show the line, and the line may have a password.
        toml::from_str(&text).map_err(|error| unreadable(&path, &error.message()))
    }

    /// Writes the file anew, for its owner only, because URLs may have passwords.
    ///
    /// # Errors
    /// The file cannot be written. It is as it was.
    pub(crate) fn write(&self) -> Result<(), Failure> {
        let path = path()
            .ok_or_else(|| Failure::usage("set HOME or XDG_CONFIG_HOME: the contexts have no place"))?;
        let text = toml::to_string(self).map_err(|error| unwritable(&path, &error))?;
        let folder = path.parent().unwrap_or(&path);
        let new = path.with_extension(format!("{}.new", std::process::id()));
        let written = fs::create_dir_all(folder)
            .and_then(|()| {
                fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)
            })
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&new, &path));
        written.map_err(|error| unwritable(&path, &error))
    }

    /// The context of this name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn take(mut self, name: &str) -> Result<Context, Failure> {
        self.by_name.remove(name).ok_or_else(|| no_context(name))
    }

    /// The context that `TENURE_CONTEXT` names, else the one in use.
    ///
    /// # Errors
    /// It does not exist.
    pub(crate) fn in_use(mut self) -> Result<Option<Context>, Failure> {
        let named = env::var("TENURE_CONTEXT").ok().filter(|name| !name.is_empty());
        let used = self.used.take();
        named.or(used).map(|name| self.take(&name)).transpose()
    }
}

pub(crate) fn no_context(name: &str) -> Failure {
    Failure::new(Code::NotFound, format!("there is no context {name:?}"))
}

/// The file's place. None without a home.
fn path() -> Option<PathBuf> {
    let of = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = of("XDG_CONFIG_HOME").or_else(|| Some(of("HOME")?.join(".config")))?;
    Some(folder.join("tenure").join("config.toml"))
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("{} cannot be read: {error}", path.display()))
}

fn unwritable(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Code::Failed, format!("{} cannot be written: {error}", path.display()))
}

/// A URL without its password.
pub(crate) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "(not a URL)".to_owned() };
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    let place = match place.rsplit_once('@') {
        Some((user, host)) => format!("{}:***@{host}", user.split(':').next().unwrap_or_default()),
        None => place.to_owned(),
    };
    let query = query.map(|query| query.split('&').map(shown).collect::<Vec<_>>().join("&"));
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{scheme}://{place}{query}")
}

/// A parameter of a URL. One that may be a secret is not shown.
fn shown(parameter: &str) -> String {
    match parameter.split_once('=') {
        Some((name, _)) if name.contains("pass") || name.contains("secret") => format!("{name}=***"),
        _ => parameter.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_url_has_no_password() {
        for (url, shown) in [
            ("redis://localhost:6379/1", "redis://localhost:6379/1"),
            ("redis://:p@ss@h", "redis://:***@h"),
            ("rediss://anna:secret@h:1/0?ca=/x", "rediss://anna:***@h:1/0?ca=/x"),
            (
                "redis+sentinel://u:p@a,b/main?sentinel_password=x",
                "redis+sentinel://u:***@a,b/main?sentinel_password=***",
            ),
            ("rubbish", "(not a URL)"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
