//! Where callers come in: an address or a socket in the file system, and the path that all paths begin with.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use axum::Router;
use hyper_util::service::TowerToHyperService;
use tokio::net::UnixListener;

use crate::exit::Failure;
use crate::http::{Bounds, serve, tcp};
use crate::socket::Socket;

/// Only its user reaches a socket.
const MODE: u32 = 0o600;

/// An open door.
pub(super) enum Door {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, PathBuf),
}

impl Door {
    /// A door, and its name in the file system, which is removed with what is returned.
    ///
    /// # Errors
    /// Nobody can be served there.
    pub(super) async fn open(
        address: SocketAddr,
        path: Option<&Path>,
    ) -> Result<(Self, Option<Socket>), Failure> {
        if let Some(path) = path {
            let (socket, listener) = Socket::bind(path, MODE).await?;
            return Ok((Self::Unix(listener, path.to_owned()), Some(socket)));
        }
        let listener = TcpListener::bind(address).map_err(|error| Failure::of_place(address, &error))?;
        listener.set_nonblocking(true)?;
        let bound = listener.local_addr()?;
        Ok((Self::Tcp(listener, bound), None))
    }

    /// Where the page is.
    pub(super) fn page(&self, base: &str) -> String {
        match self {
            Self::Tcp(_, address) => format!("http://{address}{base}/"),
            Self::Unix(_, path) if base.is_empty() => path.display().to_string(),
            Self::Unix(_, path) => format!("{}, below {base}/", path.display()),
        }
    }

    /// How its user changes something.
    pub(super) fn way(&self, base: &str, token: &str) -> String {
        match self {
            Self::Tcp(..) => format!("open {}#token={token}", self.page(base)),
            Self::Unix(..) => format!("send the header authorization: Bearer {token}"),
        }
    }

    /// Serves, and never ends by itself.
    ///
    /// # Errors
    /// The listener cannot be used.
    pub(super) async fn serve(self, bounds: Bounds, router: Router) -> io::Result<Infallible> {
        let service = TowerToHyperService::new(router);
        match self {
            Self::Tcp(listener, _) => Ok(serve(tcp(listener)?, bounds, service).await),
            Self::Unix(listener, ..) => Ok(serve(listener, bounds, service).await),
        }
    }
}

/// The beginning of all paths: empty, or without a slash at its end.
///
/// # Errors
/// It is no such path.
pub(super) fn base(text: &str) -> Result<String, String> {
    if text == "/" {
        return Ok(String::new());
    }
    let Some(rest) = text.strip_prefix('/') else {
        return Err("it begins with a slash".to_owned());
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || b"-._~".contains(&c);
    let is_part =
        |part: &str| !part.is_empty() && part.bytes().all(is_plain) && part.bytes().any(|c| c != b'.');
    if !rest.split('/').all(is_part) {
        return Err("its parts have letters, digits and -._~ only, and none is empty or of dots".to_owned());
    }
    Ok(format!("/{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_a_plain_path() {
        for (text, wanted) in
            [("/", ""), ("/tenure", "/tenure"), ("/tenure/", "/tenure"), ("/a/b-1/c.d", "/a/b-1/c.d")]
        {
            assert_eq!(base(text).as_deref(), Ok(wanted), "{text}");
        }
        for wrong in ["", "tenure", "//", "/a//b", "/..", "/a/../b", "/{key}", "/a b", "/*", "/a?b", "/é"] {
            assert!(base(wrong).is_err(), "{wrong}");
        }
    }
}
