//! The client's side of a connection to the feed server: a [`Session`] as a tenant, a [`Control`] as the conductor.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::link::Link;
use super::stats::Stats;
use super::wire::{Hello, Reply, Request};

/// The longest time until an answer. Lines come more often than that.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest time for the judge: its findings about ten thousand tenants are a long line.
const JUDGE_PATIENCE: Duration = Duration::from_secs(30);

/// A session is over, or never began.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The connection broke; a new one may be tried with the same token.
    #[error("the feed's connection broke")]
    Link(#[from] io::Error),
    /// The server has closed; a new connection may be tried with the same token.
    #[error("the feed server closed the connection")]
    Closed,
    /// The tenant belongs to a higher token.
    #[error("token {token} was refused, the tenant belongs to {highest}")]
    Stale {
        /// The token of this session.
        token: u64,
        /// The highest token that the server has seen.
        highest: u64,
    },
    /// The tenant was taken over under a newer token.
    #[error("the tenant was taken over from token {token}")]
    Replaced {
        /// The token of this session.
        token: u64,
    },
    /// The server sent a message that makes no sense here.
    #[error("the feed server answered out of turn: {0:?}")]
    Unexpected(Box<Reply>),
}

/// A tenant's connection.
#[derive(Debug)]
pub struct Session {
    link: Link,
    token: u64,
    line: u64,
}

impl Session {
    /// Connects as a tenant.
    ///
    /// # Errors
    /// [`SessionError::Stale`] when the tenant belongs to a higher token; else a network error.
    ///
    /// # Cancel safety
    /// The connection is closed when the future is dropped; the server may have accepted it for a moment.
    pub async fn open(address: SocketAddr, hello: Hello) -> Result<Self, SessionError> {
        let token = hello.token;
        let mut session = Self { link: Link::connect(address).await?, token, line: 0 };
        session.link.send(&Request::Hello(hello)).await?;
        match session.reply().await? {
            Reply::Welcome => Ok(session),
            other => Err(session.refusal(other)),
        }
    }

    /// Sends a heartbeat, which confirms the lines that have arrived.
    ///
    /// # Errors
    /// A network error. A refusal comes with [`next_line`](Self::next_line).
    ///
    /// # Cancel safety
    /// Not safe: drop the session.
    pub async fn beat(&mut self) -> Result<(), SessionError> {
        let Self { token, line, .. } = *self;
        Ok(self.link.send(&Request::Beat { token, line }).await?)
    }

    /// Confirms a notification.
    ///
    /// # Errors
    /// As [`beat`](Self::beat).
    ///
    /// # Cancel safety
    /// Not safe: drop the session.
    pub async fn note(&mut self, number: u64) -> Result<(), SessionError> {
        Ok(self.link.send(&Request::Noted { token: self.token, number }).await?)
    }

    /// Waits for the next line of the feed and returns its number.
    ///
    /// # Errors
    /// The reason for the end of the session.
    ///
    /// # Cancel safety
    /// Safe: no line is lost.
    pub async fn next_line(&mut self) -> Result<u64, SessionError> {
        match self.reply().await? {
            Reply::Line { number, .. } => {
                self.line = number;
                Ok(number)
            }
            other => Err(self.refusal(other)),
        }
    }

    /// Ends the session. When this returns without an error, the server has seen the end.
    ///
    /// # Errors
    /// A network error; the session has ended all the same.
    ///
    /// # Cancel safety
    /// The connection is closed when the future is dropped, but the server may see that later.
    pub async fn close(mut self) -> Result<(), SessionError> {
        self.link.send(&Request::Bye { token: self.token }).await?;
        while !matches!(self.reply().await?, Reply::Bye) {}
        Ok(())
    }

    async fn reply(&mut self) -> Result<Reply, SessionError> {
        self.link.receive(PATIENCE).await?.ok_or(SessionError::Closed)
    }

    fn refusal(&self, reply: Reply) -> SessionError {
        match reply {
            Reply::Refused { highest } => SessionError::Stale { token: self.token, highest },
            Reply::Replaced => SessionError::Replaced { token: self.token },
            other => SessionError::Unexpected(Box::new(other)),
        }
    }
}

/// The conductor's connection to the judge, made when it is needed.
#[derive(Debug)]
pub struct Control {
    address: SocketAddr,
    link: Option<Link>,
}

impl Control {
    /// A connection to the judge of this feed server. Nothing is sent yet.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, link: None }
    }

    /// Begins a new step: moves are counted from here.
    ///
    /// # Errors
    /// A network error; the step may or may not have begun.
    ///
    /// # Cancel safety
    /// Safe, but the step may have begun.
    pub async fn mark(&mut self) -> Result<(), SessionError> {
        match self.ask(&Request::Mark).await? {
            Reply::Marked => Ok(()),
            other => Err(SessionError::Unexpected(Box::new(other))),
        }
    }

    /// The judge's findings.
    ///
    /// # Errors
    /// A network error.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn stats(&mut self) -> Result<Stats, SessionError> {
        match self.ask(&Request::Stats).await? {
            Reply::Stats(stats) => Ok(stats),
            other => Err(SessionError::Unexpected(Box::new(other))),
        }
    }

    /// Keeps the connection only when question and answer are complete, so that no answer is taken for another's.
    async fn ask(&mut self, request: &Request) -> Result<Reply, SessionError> {
        let mut link = match self.link.take() {
            Some(link) => link,
            None => Link::connect(self.address).await?,
        };
        link.send(request).await?;
        let reply = link.receive(JUDGE_PATIENCE).await?.ok_or(SessionError::Closed)?;
        self.link = Some(link);
        Ok(reply)
    }
}
