//! Finds calls of scripts in the bytes that a client sends.

/// The bytes before a script's hash in a call of it.
const CALL: &[u8] = b"EVALSHA\r\n$40\r\n";
const HASH: usize = 40;

/// Reads the bytes of one connection, piece by piece.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// The bytes at the end of a piece that may begin a call.
    rest: Vec<u8>,
}

impl Calls {
    /// The hashes of the scripts that these bytes call.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Vec<String> {
        self.rest.extend_from_slice(bytes);
        let mut found = Vec::new();
        while let Some(at) = self.rest.windows(CALL.len()).position(|window| window == CALL) {
            let (from, to) = (at + CALL.len(), at + CALL.len() + HASH);
            let Some(hash) = self.rest.get(from..to) else { break };
            found.push(String::from_utf8_lossy(hash).into_owned());
            self.rest.drain(..to);
        }
        let done = self.rest.len().saturating_sub(CALL.len() + HASH - 1);
        self.rest.drain(..done);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_wherever_the_bytes_are_cut() {
        let hash = |letter: &str| letter.repeat(HASH);
        let call = |letter| format!("*3\r\n$7\r\nEVALSHA\r\n$40\r\n{}\r\n$1\r\n0\r\n", hash(letter));
        let bytes = format!("*1\r\n$4\r\nPING\r\n{}{}*1\r\n$4\r\nPING\r\n", call("a"), call("b"));
        for cut in 0..bytes.len() {
            let (first, second) = bytes.as_bytes().split_at(cut);
            let mut calls = Calls::default();
            let found = [calls.read(first), calls.read(second)].concat();
            assert_eq!(found, [hash("a"), hash("b")], "{cut}");
        }
    }
}
