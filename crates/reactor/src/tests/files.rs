use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};

use super::{LIMIT, on_both, pattern};
use crate::fs::{self, File, OpenOptions};
use crate::mailbox::mesh;
use crate::{ALIGNMENT, AlignedBuf, CoreId, MappedFile, Runtime, RuntimeConfig, counters, join_all};

#[test]
fn what_is_written_is_read() {
    on_both(|dir| async move {
        let file = File::open(dir.join("f"), OpenOptions::READ_WRITE).await.unwrap();
        let (wrote, buf) = file.write_at(pattern(1, 10_000), 0).await;
        assert_eq!(wrote.unwrap(), 10_000);
        let (wrote, _) = file.write_all_at_durable(Bytes::from_static(b"tail"), 10_000).await;
        wrote.unwrap();
        assert_eq!(file.size().unwrap(), 10_004);

        let (read, back) = file.read_exact_at(Vec::with_capacity(10_000), 0, 10_000).await;
        read.unwrap();
        assert_eq!(back, buf);
        // Reads append to what is there and keep within the capacity.
        let mut start = BytesMut::with_capacity(64);
        start.extend_from_slice(b"have");
        let (read, back) = file.read_at(start, 10_000).await;
        assert_eq!((read.unwrap(), &back[..]), (4, &b"havetail"[..]));
        let (read, _) = file.read_at(Vec::with_capacity(16), 10_004).await;
        assert_eq!(read.unwrap(), 0);
        let (read, partial) = file.read_exact_at(Vec::with_capacity(16), 10_000, 10).await;
        assert_eq!((read.unwrap_err().kind(), partial), (ErrorKind::UnexpectedEof, b"tail".to_vec()));
    });
}

#[test]
fn gathered_writes_of_any_number_of_buffers_arrive_in_order() {
    on_both(|dir| async move {
        for count in [0, 1, 2, 1023, 1024, 1025, 3000] {
            let file = File::open(dir.join(format!("f{count}")), OpenOptions::READ_WRITE).await.unwrap();
            let whole = pattern(count as u64, count * 3);
            let mut bufs: Vec<Bytes> = whole.chunks(3).map(Bytes::copy_from_slice).collect();
            bufs.insert(count / 2, Bytes::new());
            file.writev_at_durable(bufs, 5).await.unwrap();
            let back = fs::read(dir.join(format!("f{count}"))).await.unwrap();
            assert_eq!(back.len(), if count == 0 { 0 } else { 5 + whole.len() });
            if count > 0 {
                assert!(back[5..] == whole[..], "{count} buffers");
            }
        }
    });
}

#[test]
fn direct_files_take_aligned_buffers() {
    on_both(|dir| async move {
        let options = OpenOptions { direct: true, ..OpenOptions::READ_WRITE };
        let file = File::open(dir.join("f"), options).await.unwrap();
        file.allocate(0, 1 << 20).await.unwrap();
        assert_eq!(file.size().unwrap(), 1 << 20);
        file.register();
        let writes = (0..8u64).map(|n| {
            let file = file.clone();
            async move {
                let mut buf = AlignedBuf::with_capacity(3 * ALIGNMENT);
                buf.extend_from_slice(&pattern(n, 2 * ALIGNMENT + 100));
                buf.pad_to_alignment();
                file.write_all_at_durable(buf, n * 4 * ALIGNMENT as u64).await.0.unwrap();
            }
        });
        join_all(writes).await;
        for n in 0..8u64 {
            let buf = AlignedBuf::with_capacity(4 * ALIGNMENT);
            let (read, buf) = file.read_at(buf, n * 4 * ALIGNMENT as u64).await;
            assert_eq!(read.unwrap(), 4 * ALIGNMENT);
            assert!(buf[..2 * ALIGNMENT + 100] == pattern(n, 2 * ALIGNMENT + 100)[..]);
            assert!(buf[2 * ALIGNMENT + 100..].iter().all(|b| *b == 0));
            // Frozen memory can be written from again, in whole blocks.
            let bytes = buf.freeze();
            let (wrote, _) = file.write_all_at(bytes.slice(ALIGNMENT..), (1 << 19) + n * 4 * ALIGNMENT as u64).await;
            wrote.unwrap();
        }
        file.set_len(100).await.unwrap();
        assert_eq!(file.size().unwrap(), 100);
        file.sync_data().await.unwrap();
        file.sync_all().await.unwrap();
    });
}

#[test]
fn names_can_be_made_listed_moved_and_removed() {
    on_both(|dir| async move {
        fs::create_dir_all(dir.join("a/b/c")).await.unwrap();
        fs::create_dir_all(dir.join("a/b/c")).await.unwrap();
        assert_eq!(fs::create_dir(dir.join("a")).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
        fs::write_atomic_durable(dir.join("a/x"), &b"one"[..]).await.unwrap();
        fs::write_atomic_durable(dir.join("a/x"), &b"two!"[..]).await.unwrap();
        assert_eq!(fs::read(dir.join("a/x")).await.unwrap(), b"two!");
        let names: Vec<_> =
            fs::read_dir(dir.join("a")).await.unwrap().into_iter().map(|e| (e.name, e.is_dir)).collect();
        assert_eq!(names, [("b".to_owned(), true), ("x".to_owned(), false)]);

        let found = fs::metadata(dir.join("a/x")).await.unwrap().unwrap();
        assert_eq!((found.len, found.is_dir), (4, false));
        assert!(fs::metadata(dir.join("a")).await.unwrap().unwrap().is_dir);
        fs::rename(dir.join("a/x"), dir.join("a/b/y")).await.unwrap();
        assert!(!fs::exists(dir.join("a/x")).await.unwrap());
        fs::sync_dir(dir.join("a")).await.unwrap();
        fs::sync_dir(dir.join("a/b")).await.unwrap();
        fs::remove_file(dir.join("a/b/y")).await.unwrap();
        assert_eq!(fs::remove_dir(dir.join("a")).await.unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
        fs::remove_dir_all(dir.join("a")).await.unwrap();
        assert!(!fs::exists(dir.join("a")).await.unwrap());
    });
}

#[test]
fn errors_say_kind_number_and_path() {
    on_both(|dir| async move {
        let missing = dir.join("none/f");
        let Err(error) = File::open(&missing, OpenOptions::READ).await else { panic!("opened {missing:?}") };
        assert_eq!((error.kind(), fs::os_error(&error)), (ErrorKind::NotFound, Some(libc::ENOENT)));
        assert!(error.to_string().contains("none/f"), "{error}");
        assert_eq!(fs::read_dir(&missing).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs::remove_file(&missing).await.unwrap_err().kind(), ErrorKind::NotFound);
        let new = OpenOptions { create_new: true, write: true, ..OpenOptions::default() };
        File::open(dir.join("g"), new).await.unwrap();
        let again = File::open(dir.join("g"), new).await;
        assert_eq!(again.err().map(|e| e.kind()), Some(ErrorKind::AlreadyExists));
        assert!(fs::create_dir_all(dir.join("g/h")).await.is_err());
        let zero = File::open("a\0b", OpenOptions::READ).await;
        assert_eq!(zero.err().map(|e| e.kind()), Some(ErrorKind::InvalidInput));
    });
}

#[test]
fn a_lock_is_held_while_its_file_is_open() {
    on_both(|dir| async move {
        let first = File::open(dir.join(".lock"), OpenOptions::READ_WRITE).await.unwrap();
        let second = File::open(dir.join(".lock"), OpenOptions::READ_WRITE).await.unwrap();
        assert!(first.try_lock().unwrap());
        assert!(!second.try_lock().unwrap());
        drop(first);
        assert!(second.try_lock().unwrap());
    });
}

#[test]
fn the_space_of_a_file_system_is_told() {
    on_both(|dir| async move {
        let space = fs::space(&dir).await.unwrap();
        assert!(space.usable > 0 && space.usable <= space.total, "{space:?}");
        let error = fs::space(dir.join("absent")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("absent"), "{error}");
    });
    let mut sim = crate::sim::Sim::new(1);
    let node = sim.add_client();
    sim.set_disk_capacity(node, 10_000);
    sim.run(node, LIMIT, async {
        let file = File::open("/f", OpenOptions::READ_WRITE).await.unwrap();
        file.write_all_at(pattern(1, 4_000), 0).await.0.unwrap();
        assert_eq!(fs::space("/").await.unwrap(), fs::Space { total: 10_000, usable: 6_000 });
    });
}

#[test]
fn stores_to_a_mapped_file_are_in_the_file_without_an_operation() {
    on_both(|dir| async move {
        let file = File::open(dir.join("f"), OpenOptions::READ_WRITE).await.unwrap();
        file.write_all_at(pattern(1, 10_000), 0).await.0.unwrap();
        assert_eq!(MappedFile::new(&file, 10_001).map(drop).unwrap_err().kind(), ErrorKind::InvalidInput);
        let map = MappedFile::new(&file, 10_000).unwrap();
        let before = counters().ops;
        map.store(4090, b"across pages").unwrap();
        map.store(9_999, b"!").unwrap();
        map.store(10_000, b"").unwrap();
        assert_eq!((map.len(), counters().ops), (10_000, before));
        let mut expected = pattern(1, 10_000);
        expected[4090..4102].copy_from_slice(b"across pages");
        expected[9_999] = b'!';
        assert!(fs::read(dir.join("f")).await.unwrap() == expected);
        // Both directions: what is written to the file is not overwritten by what was mapped before.
        file.write_all_at(Bytes::from_static(b"written"), 0).await.0.unwrap();
        map.store(7, b"stored").unwrap();
        drop((map, file));
        assert_eq!(&fs::read(dir.join("f")).await.unwrap()[..13], b"writtenstored");
    });
}

#[test]
fn an_open_file_moves_to_another_core() {
    let _watchdog = super::Watchdog::new();
    let scratch = super::Scratch::new();
    let path = scratch.0.join("f");
    let ports = Arc::new(Mutex::new(mesh(2, 1).into_iter().map(Some).collect::<Vec<_>>()));
    let boot = move |core: CoreId| {
        let port = ports.lock().unwrap()[core.index()].take().unwrap();
        let path = path.clone();
        async move {
            if core == CoreId(0) {
                let file = File::open(&path, OpenOptions::READ_WRITE).await.unwrap();
                file.write_all_at(Bytes::from_static(b"what stands in it"), 0).await.0.unwrap();
                // Neither its name nor the first descriptor is needed any more.
                fs::remove_file(&path).await.unwrap();
                port.post(CoreId(1), file.portable().unwrap().expect("a real file can move")).await;
            } else {
                let file = port.recv().await.1.arrive();
                file.will_read(0, 1 << 20);
                let (read, back) = file.read_exact_at(Vec::with_capacity(6), 5, 6).await;
                read.unwrap();
                assert_eq!(back, b"stands");
            }
        }
    };
    Runtime::start(RuntimeConfig::with_cores(2), boot).unwrap().join();
    let mut sim = crate::sim::Sim::new(1);
    let node = sim.add_client();
    sim.run(node, LIMIT, async {
        let file = File::open("/f", OpenOptions::READ_WRITE).await.unwrap();
        file.will_read(0, 1 << 20);
        assert!(file.portable().unwrap().is_none(), "files of the simulation stay on their core");
    });
}
