//! A broker that keeps nothing: it answers what `odradek perf produce` asks with success, on the bare reactor and the codec alone.
//! The ceiling of the benchmarks: no broker on this reactor can take requests for less.
//!
//! `echo_broker --port 9092 [--cores N]`, a core for each CPU by default, until SIGTERM or SIGINT.
//!
//! It promises nothing: records are decoded past and dropped, nothing is validated, offsets are made up.

mod answers;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use answers::Topics;
use bytes::{Buf, Bytes, BytesMut};
use reactor::net::{BindOptions, TcpListener, TcpStream};
use reactor::{Class, CoreSpec, Runtime, RuntimeConfig, spawn, stopping};

/// Bytes received at once at least.
const RECEIVE_BYTES: usize = 16 << 10;
/// Bytes of a frame; a record may have 16 MiB, and a request several.
const FRAME_BYTES_MAX: usize = 256 << 20;

/// What was asked for on the command line.
struct Arguments {
    port: u16,
    cores: usize,
}

fn arguments() -> Result<Arguments, String> {
    let cpus = core_affinity::get_core_ids().map_or(1, |ids| ids.len());
    let (mut port, mut cores) = (None, cpus);
    let mut words = std::env::args().skip(1);
    while let Some(name) = words.next() {
        let value = words.next().ok_or_else(|| format!("{name} needs a value"))?;
        let wrong = |_| format!("{name} {value} is no number in range");
        match name.as_str() {
            "--port" => port = Some(value.parse().map_err(wrong)?),
            "--cores" => cores = value.parse::<usize>().map_err(wrong)?,
            _ => return Err(format!("{name} is not known")),
        }
    }
    if cores == 0 || cores > 1024 {
        return Err(format!("--cores {cores}: 1 to 1024 are possible"));
    }
    Ok(Arguments { port: port.ok_or("--port is missing")?, cores })
}

/// The next whole frame of what was received, without its length; an error ends the connection.
fn next_frame(buf: &mut BytesMut) -> Result<Option<Bytes>, String> {
    let Some(length) = buf.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(format!("a frame of {length} bytes, and {FRAME_BYTES_MAX} are the most"));
    }
    if buf.len() < 4 + length {
        buf.reserve(4 + length - buf.len());
        return Ok(None);
    }
    let mut frame = buf.split_to(4 + length);
    frame.advance(4);
    Ok(Some(frame.freeze()))
}

/// Answers everything that has arrived with one send, until the peer goes.
async fn serve(stream: TcpStream, topics: Arc<Topics>) -> Result<(), String> {
    let mut buf = BytesMut::with_capacity(RECEIVE_BYTES);
    loop {
        buf.reserve(RECEIVE_BYTES / 4);
        let (got, filled) = stream.recv(buf).await;
        buf = filled;
        if got.map_err(|error| error.to_string())? == 0 {
            return Ok(());
        }
        let mut answers = Vec::new();
        while let Some(frame) = next_frame(&mut buf)? {
            answers.extend(answers::answer(&frame, &topics)?);
        }
        if !answers.is_empty() {
            stream.send_all(answers).await.map_err(|error| error.to_string())?;
        }
    }
}

async fn core(listener: TcpListener, topics: Arc<Topics>) {
    spawn(Class::Latency, async move {
        while let Ok((stream, peer)) = listener.accept().await {
            let topics = topics.clone();
            spawn(Class::Latency, async move {
                if let Err(why) = serve(stream, topics).await {
                    eprintln!("echo_broker: {peer}: {why}");
                }
            })
            .detach();
        }
    })
    .detach();
    stopping().await;
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("echo_broker: {why}\nusage: echo_broker --port PORT [--cores N]");
            return ExitCode::from(2);
        }
    };
    let address = SocketAddr::from(([127, 0, 0, 1], arguments.port));
    let topics = Arc::new(Topics::new(address));
    let cpus: Vec<_> = core_affinity::get_core_ids().unwrap_or_default();
    let mut config = RuntimeConfig::with_cores(arguments.cores);
    for (spec, cpu) in config.cores.iter_mut().zip(cpus.iter().filter(|_| arguments.cores <= cpus.len())) {
        *spec = CoreSpec { cpu: Some(cpu.id), ..spec.clone() };
    }
    let started = Runtime::start(config, move |_| {
        let topics = topics.clone();
        async move {
            let options = BindOptions { reuse_port: true, ..BindOptions::default() };
            match TcpListener::bind(address, options).await {
                Ok(listener) => core(listener, topics).await,
                Err(error) => {
                    eprintln!("echo_broker: {address}: {error}");
                    reactor::stop();
                }
            }
        }
    });
    match started {
        Ok(runtime) => {
            if let Err(error) = runtime.stop_handle().on_termination_signals() {
                eprintln!("echo_broker: no signal handlers: {error}");
            }
            runtime.join();
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("echo_broker: no ring: {error}");
            ExitCode::FAILURE
        }
    }
}
