//! The contents of a private server: connected clients, keys and users' rights.
//!
//! Each query uses a connection of its own with all rights, which is closed afterwards.

use std::collections::HashMap;

use redis::{Cmd, FromRedisValue};

use crate::{Error, RedisServer, address::Login, server::START};

/// A connection that a client has to a server, as `CLIENT LIST` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Connected {
    /// The connection's number in Redis.
    pub id: u64,
    /// The name that the client gave to the connection, or an empty one.
    pub name: String,
    /// The client's end: `127.0.0.1:port`, or the socket's path with `:0`.
    pub address: String,
    /// The user that is logged in.
    pub user: String,
    /// The letters of its kind: `N` is an ordinary one, `P` subscribes, `b` waits, `S` is a replica.
    pub flags: String,
    /// Its last command, such as `hget` or `client|list`.
    pub command: String,
}

impl RedisServer {
    /// Sends one command with all rights, even to a server that listens to others by TLS.
    ///
    /// # Errors
    /// When the server does not answer, or answers with an error or with something else than a `T`.
    pub fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Error> {
        Ok(command.query(&mut self.connection(START)?)?)
    }

    /// The connected clients other than this one, in the order of their arrival.
    ///
    /// Redis notices a connection's end a moment after its client: await it with [`eventually`](crate::eventually).
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn clients(&self) -> Result<Vec<Connected>, Error> {
        let (own, list): (u64, String) = redis::pipe()
            .cmd("CLIENT")
            .arg("ID")
            .cmd("CLIENT")
            .arg("LIST")
            .query(&mut self.connection(START)?)?;
        let mut clients: Vec<_> =
            list.lines().filter_map(connected).filter(|client| client.id != own).collect();
        clients.sort_by_key(|client| client.id);
        Ok(clients)
    }

    /// The names of all keys, sorted; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn keys(&self) -> Result<Vec<String>, Error> {
        let mut connection = self.connection(START)?;
        let mut keys = Vec::new();
        let mut cursor = 0_u64;
        loop {
            let page: Vec<Vec<u8>>;
            (cursor, page) = redis::cmd("SCAN").arg(cursor).arg("COUNT").arg(1_000).query(&mut connection)?;
            keys.extend(page.iter().map(|key| String::from_utf8_lossy(key).into_owned()));
            if cursor == 0 {
                keys.sort();
                keys.dedup();
                return Ok(keys);
            }
        }
    }

    /// Makes a user with this password and exactly these rights, such as `["~app:*", "+get"]`, and returns the user's
    /// address for connecting. An existing user of this name is replaced.
    ///
    /// # Errors
    /// When the server does not answer or does not know a right.
    pub fn acl_user(&self, name: &str, password: &str, rights: &[&str]) -> Result<String, Error> {
        let login = Login { user: name.to_owned(), password: password.to_owned() };
        self.query::<()>(&set_user(&login, rights))?;
        Ok(self.address().url(Some(&login)))
    }
}

/// The command that replaces a user.
pub(crate) fn set_user(login: &Login, rights: &[&str]) -> Cmd {
    let mut command = redis::cmd("ACL");
    command
        .arg("SETUSER")
        .arg(&login.user)
        .arg("reset")
        .arg("on")
        .arg(format!(">{}", login.password))
        .arg(rights);
    command
}

fn connected(line: &str) -> Option<Connected> {
    let fields: HashMap<_, _> = line.split(' ').filter_map(|field| field.split_once('=')).collect();
    let text = |name| fields.get(name).map(|&value: &&str| value.to_owned());
    Some(Connected {
        id: fields.get("id")?.parse().ok()?,
        name: text("name")?,
        address: text("addr")?,
        user: text("user")?,
        flags: text("flags")?,
        command: text("cmd")?,
    })
}
