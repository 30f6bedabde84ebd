//! The messages to a node.

use tenure_connection::{Client, Event};
use tokio::sync::mpsc;

use crate::store::{Hint, letters};

/// Follows a channel until the receiver is dropped. Its task lives on the runtime of this call.
pub(super) fn listen(client: &Client, channel: String) -> mpsc::UnboundedReceiver<Hint> {
    let (hints, receiver) = mpsc::unbounded_channel();
    let mut subscriber = client.subscriber([channel]);
    tokio::spawn(async move {
        loop {
            let event = tokio::select! {
                event = subscriber.next() => event,
                () = hints.closed() => return,
            };
            let hint = match event {
                Event::Subscribed => Some(Hint::Subscribed),
                Event::Message(message) => letters::hint(&message.payload),
                Event::Disconnected(error) if error.is_transient() => {
                    tracing::debug!(%error, "no messages from redis for now");
                    None
                }
                Event::Disconnected(error) => {
                    Some(Hint::Refused(format!("{error}: {}", error.code().unwrap_or_default())))
                }
                _ => None,
            };
            if hint.is_some_and(|hint| hints.send(hint).is_err()) {
                return;
            }
        }
    });
    receiver
}
