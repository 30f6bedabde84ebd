//! Bearer tokens, each with a name and a scope. Only their hashes are kept.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;

use axum::http::{HeaderMap, StatusCode, header::AUTHORIZATION};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;
use tempfile::NamedTempFile;

use super::problem::Problem;
use crate::exit::{Code, Failure};

/// The bytes of a token, and of its hash.
const LENGTH: usize = 32;
/// The longest name: it becomes a part of a node's name.
const NAME_MAX: usize = 20;

/// The rights of a caller. Each scope includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// Nothing is asked of the caller.
    Nobody,
    /// Look.
    View,
    /// Change something.
    Operate,
}

impl Scope {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::View => "view",
            Self::Operate => "operate",
        }
    }
}

/// The name and the scope of a token: `NAME` or `NAME:view`.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) scope: Scope,
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, scope) = text.split_once(':').unwrap_or((text, "operate"));
        let scope = match scope {
            "view" => Scope::View,
            "operate" => Scope::Operate,
            _ => return Err("a scope is view or operate".to_owned()),
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(fits) {
            return Err(format!("the name of a token has 1 to {NAME_MAX} letters, digits, - and _"));
        }
        Ok(Self { name: name.to_owned(), scope })
    }
}

#[derive(Clone)]
struct Token {
    named: Named,
    hash: [u8; LENGTH],
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.named.fmt(f)
    }
}

fn hash(token: &str) -> [u8; LENGTH] {
    let mut hash = [0; LENGTH];
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}

/// Makes a token, and the line of a file that knows it.
///
/// # Errors
/// The machine has no random numbers.
pub(super) fn make(named: &Named) -> Result<(String, String), Failure> {
    let mut bytes = [0; LENGTH];
    let drawn = SystemRandom::new().fill(&mut bytes);
    drawn.map_err(|_| Failure::new(Code::Failed, "this machine has no random numbers for a token"))?;
    let token = URL_SAFE_NO_PAD.encode(bytes);
    let line = format!("{}:{}:{}", named.name, named.scope.word(), URL_SAFE_NO_PAD.encode(hash(&token)));
    Ok((token, line))
}

/// A file with a token, for its user alone. It is removed with what is returned.
///
/// # Errors
/// The file cannot be made.
pub(super) fn kept(token: &str) -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("tenure-serve-").tempfile()?;
    writeln!(file, "{token}")?;
    Ok(file)
}

/// A caller.
#[derive(Clone, Debug)]
pub(super) struct Who {
    /// None without a token.
    pub(super) name: Option<String>,
    pub(super) scope: Scope,
}

/// All tokens that are known.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    known: Vec<Token>,
    /// The scope of a caller without a token.
    without: Scope,
}

impl Tokens {
    /// Knows none.
    pub(super) fn none(without: Scope) -> Self {
        Self { known: Vec::new(), without }
    }

    /// Reads a file: a line for each token, as [`make`] gives it. Lines that begin with `#` say nothing.
    ///
    /// # Errors
    /// The file cannot be read, or a line is no token's.
    pub(super) fn read(path: &Path, without: Scope) -> Result<Self, Failure> {
        let at = |what: &dyn fmt::Display| Failure::usage(format!("{}: {what}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| at(&error))?;
        let mut tokens = Self::none(without);
        for (number, line) in text.lines().map(str::trim).enumerate() {
            if !line.is_empty() && !line.starts_with('#') {
                tokens.add(line).map_err(|why| at(&format_args!("line {}: {why}", number + 1)))?;
            }
        }
        if tokens.known.is_empty() {
            return Err(at(&"there is no token: `tenure serve --new-token NAME` makes one"));
        }
        Ok(tokens)
    }

    /// Adds the token of such a line.
    pub(super) fn add(&mut self, line: &str) -> Result<(), String> {
        let (named, kept) = line.rsplit_once(':').ok_or("a line is NAME:SCOPE:HASH")?;
        let bytes = URL_SAFE_NO_PAD.decode(kept).ok().and_then(|bytes| bytes.try_into().ok());
        let hash = bytes.ok_or("the hash is none that `tenure serve --new-token` has made")?;
        self.known.push(Token { named: named.parse()?, hash });
        Ok(())
    }

    /// The caller of a request.
    ///
    /// # Errors
    /// It has a token that is not known, or something else where a token belongs.
    pub(super) fn who(&self, headers: &HeaderMap) -> Result<Who, Problem> {
        let mut sent = headers.get_all(AUTHORIZATION).iter();
        let unknown = || Problem::new(StatusCode::UNAUTHORIZED, "token", "this token is not known");
        let token = match (sent.next(), sent.next()) {
            (None, _) => return Ok(Who { name: None, scope: self.without }),
            (Some(value), None) => value.to_str().ok().and_then(bearer).ok_or_else(unknown)?,
            _ => return Err(unknown()),
        };
        let sent = hash(token);
        // All of them are compared, and each in the same time.
        let mut found = None;
        for token in &self.known {
            if bool::from(token.hash.ct_eq(&sent)) {
                found = Some(&token.named);
            }
        }
        let Named { name, scope } = found.ok_or_else(unknown)?;
        Ok(Who { name: Some(name.clone()), scope: *scope })
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl Who {
    /// # Errors
    /// The caller may not do as much.
    pub(super) fn may(&self, scope: Scope) -> Result<(), Problem> {
        match &self.name {
            _ if self.scope >= scope => Ok(()),
            None => Err(Problem::new(StatusCode::UNAUTHORIZED, "token", "this takes a token")),
            Some(name) => {
                let text = format!("the token {name} may {} only", self.scope.word());
                Err(Problem::new(StatusCode::FORBIDDEN, "scope", text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn sent(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())])
    }

    #[test]
    fn a_token_is_known_by_its_line_and_no_other_is() {
        let (anna, line) = make(&"anna".parse().unwrap()).unwrap();
        assert!(!line.contains(&anna), "the file has no token");
        let mut tokens = Tokens::none(Scope::Nobody);
        tokens.add(&line).unwrap();
        tokens.add(&make(&"ben:view".parse().unwrap()).unwrap().1).unwrap();
        let who = tokens.who(&sent(&format!("Bearer {anna}"))).unwrap();
        assert_eq!((who.name.as_deref(), who.scope), (Some("anna"), Scope::Operate));
        for other in [format!("Bearer {anna}x"), format!("Basic {anna}"), anna.clone(), "Bearer ".to_owned()]
        {
            assert_eq!(tokens.who(&sent(&other)).unwrap_err().status, StatusCode::UNAUTHORIZED, "{other}");
        }
        let mut twice = sent(&format!("Bearer {anna}"));
        twice.append(AUTHORIZATION, "Bearer x".parse().unwrap());
        assert!(tokens.who(&twice).is_err());
        let nobody = tokens.who(&HeaderMap::new()).unwrap();
        assert_eq!(nobody.may(Scope::View).unwrap_err().status, StatusCode::UNAUTHORIZED);
    }

    #[test]
    fn a_scope_includes_those_before_it() {
        let who = |scope| Who { name: Some("x".to_owned()), scope };
        assert!(who(Scope::Operate).may(Scope::View).is_ok() && who(Scope::View).may(Scope::View).is_ok());
        assert_eq!(who(Scope::View).may(Scope::Operate).unwrap_err().status, StatusCode::FORBIDDEN);
    }

    #[test]
    fn a_line_that_is_no_tokens_is_refused() {
        let mut tokens = Tokens::none(Scope::View);
        let hash = URL_SAFE_NO_PAD.encode([7; LENGTH]);
        for line in [
            "anna",
            "anna:operate:",
            "anna:operate:x",
            &format!("an na:view:{hash}"),
            &format!("a:root:{hash}"),
        ] {
            assert!(tokens.add(line).is_err(), "{line}");
        }
        assert!(tokens.add(&format!("anna:view:{hash}")).is_ok());
    }
}
