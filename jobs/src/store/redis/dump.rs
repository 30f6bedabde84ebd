//! The whole state of a set as tests compare it.

use redis::Value;
use tenure_connection::Connection;

use super::keys::Keys;
use super::reply::{Values, failed};
use crate::store::{Dump, Result};

pub(super) async fn dump(connection: &Connection, keys: &Keys) -> Result<Dump> {
    let mut dump = Dump::default();
    let ask = async |command: &redis::Cmd| connection.command(command).await.map_err(failed);
    let mut names = Values::of("KEYS", ask(redis::cmd("KEYS").arg(keys.named("*"))).await?)?;
    while names.len() > 0 {
        let key = names.text()?;
        let name = key.strip_prefix(keys.prefix()).unwrap_or(&key);
        let kind = match ask(redis::cmd("TYPE").arg(&key)).await? {
            Value::SimpleString(kind) => kind,
            _ => String::new(),
        };
        let command = match &*kind {
            "hash" => redis::cmd("HGETALL").arg(&key).clone(),
            "zset" => redis::cmd("ZRANGE").arg(&key).arg(0).arg(-1).arg("WITHSCORES").clone(),
            "string" if name.starts_with("lane:") => {
                let value = Values::of("GET", Value::Array(vec![ask(redis::cmd("GET").arg(&key)).await?]))?
                    .bytes()?;
                dump.insert(name, [("", value)]);
                continue;
            }
            _ => continue,
        };
        let mut values = Values::of("HGETALL", ask(&command).await?)?;
        let mut content = Vec::new();
        while values.len() > 0 {
            let (field, value) = (values.bytes()?, values.bytes()?);
            if name != "meta" || &field[..] != b"server" {
                content.push((field, value));
            }
        }
        dump.insert(name, content);
    }
    Ok(dump)
}
