//! A client of single frames: what no real client would send, and answers byte by byte.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A connection that sends and receives whole frames.
pub struct Raw {
    stream: TcpStream,
    correlation: i32,
}

/// How long an answer may take before the test fails. A safety net, not a measurement.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

impl Raw {
    /// Connects.
    ///
    /// # Errors
    /// Whatever the socket says.
    pub fn connect(addr: SocketAddr) -> io::Result<Raw> {
        let stream = TcpStream::connect_timeout(&addr, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.set_nodelay(true)?;
        Ok(Raw { stream, correlation: 0 })
    }

    /// Sends `frame` behind its length.
    ///
    /// # Errors
    /// Whatever the socket says.
    pub fn send_frame(&mut self, frame: &[u8]) -> io::Result<()> {
        let length = i32::try_from(frame.len()).expect("a frame fits an i32");
        self.send_bytes(&[&length.to_be_bytes(), frame].concat())
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// Whatever the socket says.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Receives one frame without its length.
    ///
    /// # Errors
    /// Whatever the socket says; a closed connection is `UnexpectedEof`.
    pub fn recv_frame(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = usize::try_from(i32::from_be_bytes(length)).expect("a broker never sends a negative length");
        let mut frame = vec![0; length];
        self.stream.read_exact(&mut frame)?;
        Ok(frame)
    }

    /// True when the other side closes the connection without another byte.
    pub fn is_closed_by_peer(&mut self) -> bool {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(n) => n == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// Sends a request with a header of version 1 (not flexible) or 2 (flexible) and returns the frame that answers it,
    /// starting after the correlation id.
    ///
    /// # Errors
    /// Whatever the socket says.
    pub fn request(&mut self, key: i16, version: i16, flexible: bool, body: &[u8]) -> io::Result<Vec<u8>> {
        let correlation = self.send_request(key, version, flexible, body)?;
        let frame = self.recv_frame()?;
        assert_eq!(frame[..4], correlation.to_be_bytes(), "the answer belongs to another request");
        Ok(frame[4..].to_vec())
    }

    /// Sends a request and does not wait; returns its correlation id.
    ///
    /// # Errors
    /// Whatever the socket says.
    pub fn send_request(&mut self, key: i16, version: i16, flexible: bool, body: &[u8]) -> io::Result<i32> {
        self.correlation += 1;
        let mut frame = Vec::new();
        frame.extend(key.to_be_bytes());
        frame.extend(version.to_be_bytes());
        frame.extend(self.correlation.to_be_bytes());
        frame.extend(3i16.to_be_bytes());
        frame.extend(b"raw");
        if flexible {
            frame.push(0);
        }
        frame.extend(body);
        self.send_frame(&frame)?;
        Ok(self.correlation)
    }

    /// True when Metadata v12 names broker `id`: the moment a node counts as ready.
    ///
    /// # Errors
    /// Whatever the socket says.
    pub fn lists_itself(&mut self, id: i32) -> io::Result<bool> {
        // An empty topic array, no auto creation, no authorized operations, no tags.
        let answer = self.request(3, 12, true, &[1, 0, 0, 0])?;
        // Response header tags, throttle time, then the compact array of brokers led by the node id.
        Ok(answer.len() > 10 && answer[5] > 1 && answer[6..10] == id.to_be_bytes())
    }
}
