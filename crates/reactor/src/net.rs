//! TCP on the current core.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;

use bytes::{Buf, Bytes, BytesMut};

use crate::fs::File;
use crate::op::{Fd, Held, IovHeld, Op, Pipe, Request, check};
use crate::percore::{self, Backend, Core};
use crate::uring::sys;

/// How to listen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BindOptions {
    /// Several listeners, one per core, share the address and the kernel spreads connections over them (SO_REUSEPORT).
    pub reuse_port: bool,
    /// Connections that wait to be accepted; the system caps it at `net.core.somaxconn`.
    pub backlog: u32,
    /// Send buffer of the connections (SO_SNDBUF), which the system then no longer fits to each; `None` leaves it to the system.
    pub send_buffer_bytes: Option<u32>,
    /// The same of the receive buffer (SO_RCVBUF).
    pub receive_buffer_bytes: Option<u32>,
}

impl Default for BindOptions {
    fn default() -> BindOptions {
        BindOptions { reuse_port: false, backlog: 1024, send_buffer_bytes: None, receive_buffer_bytes: None }
    }
}

/// Accepts connections.
pub struct TcpListener {
    fd: Rc<Fd>,
    local: SocketAddr,
    /// Accepts whose future was dropped, kept for the next one: at most as many as there were futures at once.
    ///
    /// They are not cancelled, for two reasons. A connection that such an accept takes is not lost. And the kernel waits for
    /// connections exclusively: a cancelled accept may swallow the wake-up that the next one, already waiting, needs.
    pending: RefCell<Vec<Op>>,
}

/// An accept under way; goes back to its listener when the future is dropped.
struct Accepting<'a> {
    listener: &'a TcpListener,
    op: Option<Op>,
}

impl Drop for Accepting<'_> {
    fn drop(&mut self) {
        self.listener.pending.borrow_mut().extend(self.op.take());
    }
}

impl TcpListener {
    /// Binds and listens; port 0 lets the system choose.
    ///
    /// # Errors
    /// `AddrInUse`, `PermissionDenied`, ...
    pub async fn bind(address: SocketAddr, options: BindOptions) -> io::Result<TcpListener> {
        let core = percore::current();
        if let Backend::Sim(sim) = &core.backend {
            let (raw, local) = sim.listen(address, options.reuse_port)?;
            return Ok(TcpListener { fd: Fd::new(core, raw), local, pending: RefCell::default() });
        }
        let fd = Fd::new(core, sys::tcp_socket(&address)?);
        // Before the first connection comes, which takes them over.
        sys::set_buffers(fd.raw(), options.send_buffer_bytes, options.receive_buffer_bytes)?;
        let backlog = i32::try_from(options.backlog).unwrap_or(i32::MAX);
        sys::listen(fd.raw(), address, options.reuse_port, backlog)?;
        let local = sys::socket_address(fd.raw(), false)?;
        Ok(TcpListener { fd, local, pending: RefCell::default() })
    }

    /// Whether the address could be listened on by this process alone: it is bound without SO_REUSEPORT and given back.
    /// With SO_REUSEPORT several processes of a user can listen on one address, each unaware of the other.
    ///
    /// # Errors
    /// `AddrInUse` when anybody listens there, also with SO_REUSEPORT; `PermissionDenied`, ...
    pub fn probe(address: SocketAddr) -> io::Result<()> {
        let core = percore::current();
        if let Backend::Sim(sim) = &core.backend {
            let (raw, _) = sim.listen(address, false)?;
            drop(Fd::new(core, raw));
            return Ok(());
        }
        let fd = Fd::new(core, sys::tcp_socket(&address)?);
        sys::bind(fd.raw(), address, false)
    }

    /// The address it listens on, with the port that was chosen.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The next connection, with TCP_NODELAY set, and the peer's address. Nothing is lost when the future is dropped.
    ///
    /// # Errors
    /// EMFILE and the like; the listener stays usable. A connection that the peer gave up before it was accepted is
    /// ECONNABORTED.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let core = Rc::clone(self.fd.core());
        let kept = self.pending.borrow_mut().pop();
        let op = kept.unwrap_or_else(|| {
            let request = Request::Accept { fd: Rc::clone(&self.fd) };
            Op::start_on(Rc::clone(&core), request, Held::Addr(sys::empty_address()))
        });
        let mut accepting = Accepting { listener: self, op: Some(op) };
        let (result, mut held) = accepting.op.as_mut().expect("the operation was just put there").await;
        accepting.op = None;
        let raw = check(result)?;
        let fd = Fd::new(core, raw as i32);
        let peer = held.addr().address.ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))?;
        let stream = TcpStream { fd, peer };
        stream.set_nodelay(true)?;
        Ok((stream, peer))
    }
}

/// A connection; cheap to clone, closed with the last clone and the last operation on it. One task may receive while
/// another sends.
///
/// A dropped `recv` or `send_all` is cancelled; bytes it had taken from, or given to, the peer by then are lost to the
/// caller: close the connection after dropping one that had begun.
#[derive(Clone)]
pub struct TcpStream {
    fd: Rc<Fd>,
    peer: SocketAddr,
}

/// Bytes of one file-to-pipe step of a splice: what a pipe can be made to hold by any user (fs.pipe-max-size).
const PIPE_BYTES: i32 = 1 << 20;
/// Idle pipes a core keeps: two descriptors and their memory each; more connections than that splicing at once make their own.
const IDLE_PIPES_MAX: usize = 16;

/// How long a helper thread of the kernel may be held up by one peer's slowness before the splice goes back to waiting for
/// room on the ring, in milliseconds.
const SPLICE_BLOCK_MS_MAX: u32 = 10;

impl TcpStream {
    /// Connects, with TCP_NODELAY set.
    ///
    /// # Errors
    /// `ConnectionRefused`, ... There is no timeout but the system's; wrap it in [`crate::timeout`].
    pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
        let core = percore::current();
        let raw = match &core.backend {
            Backend::Uring(_) => sys::tcp_socket(&address)?,
            Backend::Sim(sim) => sim.socket(),
        };
        let fd = Fd::new(Rc::clone(&core), raw);
        let request = Request::Connect { fd: Rc::clone(&fd) };
        let (result, _) = Op::start_on(core, request, Held::Addr(sys::address_to_kernel(address))).await;
        check(result)?;
        let stream = TcpStream { fd, peer: address };
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Enters the connection into the ring's table of registered files, which makes every operation on it a little cheaper.
    /// Worth it for connections that live for hundreds of operations. False when there is no room in the table
    /// ([`crate::RuntimeConfig::registered_files`]); the connection works all the same.
    pub fn register(&self) -> bool {
        self.fd.register()
    }

    /// Receives once into the spare capacity of `buf`; 0 when the peer has closed its direction.
    ///
    /// # Errors
    /// `ConnectionReset`, ...; `InvalidInput` when `buf` has no spare capacity.
    pub async fn recv(&self, mut buf: BytesMut) -> (io::Result<usize>, BytesMut) {
        if buf.spare_capacity_mut().is_empty() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "receiving into a full buffer");
            return (Err(error), buf);
        }
        let request = Request::Recv { fd: Rc::clone(&self.fd) };
        let (result, held) = Op::start_on(Rc::clone(self.fd.core()), request, Held::BytesMut(buf)).await;
        let Held::BytesMut(buf) = held else { unreachable!("a receive gives its buffer back") };
        (check(result), buf)
    }

    /// As [`TcpStream::recv`], but gives the buffer back with `None` when `enough` holds in a poll before anything came. Nothing
    /// is lost by that.
    ///
    /// # Errors
    /// As there.
    pub async fn recv_unless(&self, buf: BytesMut, enough: impl Fn() -> bool) -> (io::Result<Option<usize>>, BytesMut) {
        let request = Request::Recv { fd: Rc::clone(&self.fd) };
        let mut op = Op::start_on(Rc::clone(self.fd.core()), request, Held::BytesMut(buf));
        let mut ended = false;
        let (result, held) = std::future::poll_fn(|cx| {
            if !ended && enough() {
                ended = true;
                op.end_early();
            }
            Pin::new(&mut op).poll(cx)
        })
        .await;
        let Held::BytesMut(buf) = held else { unreachable!("a receive gives its buffer back") };
        match result {
            _ if ended && result == -libc::ECANCELED => (Ok(None), buf),
            result => (check(result).map(Some), buf),
        }
    }

    /// Sends all buffers in order, gathered, continuing after partial sends. A buffer is released as soon as it has left.
    ///
    /// # Errors
    /// `BrokenPipe`, `ConnectionReset`, ...; a part may have been sent.
    pub async fn send_all(&self, bufs: Vec<Bytes>) -> io::Result<()> {
        let mut iov = IovHeld::new(bufs);
        while !iov.is_done() {
            let request = Request::Send { fd: Rc::clone(&self.fd) };
            let (result, held) = Op::start_on(Rc::clone(self.fd.core()), request, Held::Iov(iov)).await;
            let Held::Iov(mut returned) = held else { unreachable!("a send gives its buffers back") };
            let sent = check(result)?;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            returned.advance(sent);
            iov = returned;
        }
        Ok(())
    }

    /// As [`TcpStream::send_all`], of one buffer.
    ///
    /// # Errors
    /// As there.
    pub async fn send(&self, mut buf: Bytes) -> io::Result<()> {
        while !buf.is_empty() {
            let request = Request::Send { fd: Rc::clone(&self.fd) };
            let (result, held) = Op::start_on(Rc::clone(self.fd.core()), request, Held::Bytes(buf)).await;
            let Held::Bytes(mut returned) = held else { unreachable!("a send gives its buffer back") };
            let sent = check(result)?;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            returned.advance(sent);
            buf = returned;
        }
        Ok(())
    }

    /// Sends `len` bytes of `file` from `off` on without copying them through user space: file to pipe to socket, both steps
    /// on the ring, so that cold pages do not stop the core.
    ///
    /// # Errors
    /// As for [`TcpStream::send_all`]; `UnexpectedEof` when the file is shorter, after its bytes were sent.
    pub async fn splice_from(&self, file: &File, off: u64, len: u64) -> io::Result<()> {
        let core = Rc::clone(self.fd.core());
        if matches!(core.backend, Backend::Sim(_)) {
            return self.copy_from(file, off, len).await;
        }
        // The step out of the pipe runs on a helper thread of the kernel, where a send may block.
        sys::set_send_timeout(self.fd.raw(), SPLICE_BLOCK_MS_MAX)?;
        let pooled = core.pipes.borrow_mut().pop();
        let pipe = match pooled {
            Some(pipe) => pipe,
            None => {
                let (read, write, bytes) = sys::pipe(PIPE_BYTES)?;
                Rc::new(Pipe { read: Fd::new(Rc::clone(&core), read), write: Fd::new(Rc::clone(&core), write), bytes })
            }
        };
        // On an error, and when this future is dropped, the pipe is closed with whatever is in it.
        self.splice_through(&core, &pipe, file, off, len).await?;
        if core.pipes.borrow().len() < IDLE_PIPES_MAX {
            core.pipes.borrow_mut().push(pipe);
        }
        Ok(())
    }

    async fn splice_through(
        &self,
        core: &Rc<Core>,
        pipe: &Rc<Pipe>,
        file: &File,
        mut off: u64,
        len: u64,
    ) -> io::Result<()> {
        let run = |request| async { check(Op::start_on(Rc::clone(core), request, Held::Nothing).await.0) };
        let mut left = len;
        while left > 0 {
            let fill = |len: u64| {
                run(Request::SpliceIn { file: Rc::clone(file.fd()), off, pipe: Rc::clone(pipe), len: len as u32 })
            };
            let filled = core.read_in_turn(left.min(pipe.bytes as u64), fill).await?;
            if filled == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            off += filled as u64;
            left -= filled as u64;
            if left > 0 {
                // The disk works while the socket does.
                file.will_read(off, left.min(pipe.bytes as u64));
            }
            let mut inside = filled as u32;
            while inside > 0 {
                run(Request::Writable { socket: Rc::clone(&self.fd) }).await?;
                let socket = Rc::clone(&self.fd);
                let drain = Request::SpliceOut { pipe: Rc::clone(pipe), socket, len: inside, more: left > 0 };
                match run(drain).await {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(sent) => inside -= sent as u32,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// What splicing does where there are no pipes.
    async fn copy_from(&self, file: &File, off: u64, len: u64) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            let buf = Vec::with_capacity((len - done).min(PIPE_BYTES as u64) as usize);
            let (result, mut buf) = file.read_at(buf, off + done).await;
            let read = result?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buf.truncate((len - done) as usize);
            done += buf.len() as u64;
            self.send(Bytes::from(buf)).await?;
        }
        Ok(())
    }

    fn shut(&self, how: i32) -> io::Result<()> {
        match &self.fd.core().backend {
            Backend::Uring(_) => sys::shutdown(self.fd.raw(), how),
            Backend::Sim(sim) => sim.shutdown(self.fd.raw(), how),
        }
    }

    /// Ends both directions: pending receives complete with 0, the peer sees the end after what was sent.
    ///
    /// # Errors
    /// `NotConnected` when the peer was faster.
    pub fn shutdown(&self) -> io::Result<()> {
        self.shut(libc::SHUT_RDWR)
    }

    /// Ends the sending direction.
    ///
    /// # Errors
    /// `NotConnected` when the peer was faster.
    pub fn shutdown_write(&self) -> io::Result<()> {
        self.shut(libc::SHUT_WR)
    }

    /// Sends small segments at once (on by default here) or lets the kernel wait for more.
    ///
    /// # Errors
    /// What `setsockopt` reports.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.set_option(libc::IPPROTO_TCP, libc::TCP_NODELAY, i32::from(on))
    }

    /// Sets the sizes of the kernel's buffers in bytes (`socket.send.buffer.bytes`, `socket.receive.buffer.bytes`); `None`
    /// leaves them to the kernel.
    ///
    /// # Errors
    /// What `setsockopt` reports.
    pub fn set_buffer_sizes(&self, send: Option<u32>, receive: Option<u32>) -> io::Result<()> {
        for (name, bytes) in [(libc::SO_SNDBUF, send), (libc::SO_RCVBUF, receive)] {
            if let Some(bytes) = bytes {
                self.set_option(libc::SOL_SOCKET, name, i32::try_from(bytes).unwrap_or(i32::MAX))?;
            }
        }
        Ok(())
    }

    fn set_option(&self, level: i32, name: i32, value: i32) -> io::Result<()> {
        match &self.fd.core().backend {
            Backend::Uring(_) => sys::set_int_option(self.fd.raw(), level, name, value),
            Backend::Sim(_) => Ok(()),
        }
    }

    /// This end's address.
    ///
    /// # Errors
    /// What `getsockname` reports.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.fd.core().backend {
            Backend::Uring(_) => sys::socket_address(self.fd.raw(), false),
            Backend::Sim(sim) => sim.local_addr(self.fd.raw()),
        }
    }

    /// The other end's address.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }
}
