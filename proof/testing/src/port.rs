//! Ports of 127.0.0.1 that nobody else gets while they are held, whether or not something listens on them.

use std::{
    io,
    net::{Ipv4Addr, SocketAddrV4},
    os::fd::OwnedFd,
};

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt::set_socket_reuseaddr,
};

use crate::Error;

/// A held port: a socket that never listens is bound to it.
///
/// One more socket may bind to it and listen if it has `SO_REUSEADDR` set, as the sockets of Redis and tokio have. The
/// kernel chooses it neither as a free port nor for an outgoing connection.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _bound: OwnedFd,
}

impl Port {
    /// A free port, held until this is dropped.
    pub(crate) fn reserve() -> Result<Self, Error> {
        let reserve = || -> io::Result<Self> {
            let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            set_socket_reuseaddr(&socket, true)?;
            bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
            let address = SocketAddrV4::try_from(getsockname(&socket)?)?;
            Ok(Self { number: address.port(), _bound: socket })
        };
        reserve().map_err(Error::Port)
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_held_port_is_ours_and_refuses_connections_until_we_listen() {
        let port = Port::reserve().unwrap_or_else(|error| panic!("{error}"));
        let address = (Ipv4Addr::LOCALHOST, port.number());
        let refused = TcpStream::connect(address).map_err(|error| error.kind());
        assert!(matches!(refused, Err(io::ErrorKind::ConnectionRefused)));
        for _ in 0..2 {
            let listener = TcpListener::bind(address);
            assert!(listener.is_ok() && TcpStream::connect(address).is_ok());
        }
        let somebody = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let taken = somebody.and_then(|socket| bind(&socket, &SocketAddrV4::new(address.0, address.1)));
        assert_eq!(taken, Err(rustix::io::Errno::ADDRINUSE));
    }
}
