//! One connection through a proxy: both directions, until one of them ends or is cut.

use std::{io, sync::Arc, time::Duration};

use tokio::{net::TcpStream, time::sleep};

use super::{
    scripts::Calls,
    socket::Socket,
    switches::{Direction, End, Flow, Id, Order, Switches},
};
use crate::address::Address;

/// The time after which a call that passed has been executed.
const CARRIED_OUT: Duration = Duration::from_millis(50);

/// Forwards the bytes of `client` to the server and back, as the switches order.
pub(super) async fn run(open: Open, client: TcpStream) {
    let Ok(client) = Socket::tcp(client) else { return };
    let Ok(server) = Socket::connect(&open.upstream).await else {
        client.close(End::Reset).await;
        return;
    };
    // The end of either side ends the connection, as in Redis itself.
    let end = tokio::select! {
        end = open.pump(&client, &server, Direction::ToServer) => end,
        end = open.pump(&server, &client, Direction::ToClient) => end,
    };
    drop(open);
    tokio::join!(client.close(end), server.close(end));
}

/// A connection that counts as open while this exists.
pub(super) struct Open {
    switches: Arc<Switches>,
    id: Id,
    upstream: Address,
}

impl Open {
    /// Counts a connection that was just accepted.
    pub(super) fn new(switches: Arc<Switches>) -> Self {
        let (id, upstream) = switches.accepted();
        Self { switches, id, upstream }
    }

    async fn pump(&self, from: &Socket, to: &Socket, direction: Direction) -> End {
        self.try_pump(from, to, direction).await.unwrap_or(End::Reset)
    }

    /// Forwards bytes in one direction until the sender finishes or the switches cut. An error is a reset of either
    /// side.
    async fn try_pump(&self, from: &Socket, to: &Socket, direction: Direction) -> io::Result<End> {
        let mut changes = self.switches.changes();
        let mut buffer = vec![0; 16 * 1024];
        let mut held = 0..0;
        let mut has_lost = false;
        let (mut calls, mut is_last) = (Calls::default(), false);
        loop {
            if is_last && held.is_empty() {
                sleep(CARRIED_OUT).await;
                return Ok(End::Reset);
            }
            changes.mark_unchanged();
            match self.switches.order(self.id, direction) {
                Order::End(end) => return Ok(end),
                Order::Flow(Flow::Hold) => {
                    // The switches outlive the connection.
                    let _ = changes.changed().await;
                    continue;
                }
                Order::Flow(Flow::Lose) => {
                    has_lost |= !held.is_empty();
                    self.switches.lost(held.len());
                    held = 0..0;
                }
                Order::Flow(Flow::Pass) if has_lost => return Ok(End::Reset),
                Order::Flow(Flow::Pass) => {}
            }
            tokio::select! {
                biased;
                _ = changes.changed() => continue,
                ready = from.readable(), if held.is_empty() => ready?,
                ready = to.writable(), if !held.is_empty() => ready?,
            }
            let moved = if held.is_empty() {
                let read = from.try_read(&mut buffer).inspect(|&read| held = 0..read);
                if let Ok(0) = read {
                    return Ok(End::Finish);
                }
                if direction == Direction::ToServer {
                    for script in calls.read(&buffer[held.clone()]) {
                        is_last |= self.switches.called(self.id, &script);
                    }
                }
                read
            } else {
                self.switches.pass(self.id, direction, |most| {
                    let bytes = &buffer[held.clone()];
                    to.try_write(&bytes[..most.min(bytes.len())]).inspect(|written| held.start += written)
                })
            };
            match moved {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.switches.ended(self.id);
    }
}
