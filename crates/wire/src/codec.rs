//! The traits between messages and bytes, and the names that generated modules import.

use std::borrow::Cow;

pub use base::Uuid;

pub use crate::error::{DecodeError, DecodeErrorKind, EncodeError};
pub use crate::reader::Reader;
pub use crate::segment::Records;
pub use crate::writer::Writer;

/// Text of a message: borrowed from the frame when decoded, borrowed or owned when built.
pub type Str<'a> = Cow<'a, str>;

/// Bytes of a message that are not records.
pub type Bin<'a> = Cow<'a, [u8]>;

/// The facts of a message type.
pub trait Message {
    /// The schema's name.
    const NAME: &'static str;
    /// Lowest version.
    const VERSION_MIN: i16;
    /// Highest version, unfinished ones included.
    const VERSION_MAX: i16;
    /// First version in the flexible encoding (KIP-482); `i16::MAX` when there is none.
    const FLEXIBLE_FROM: i16;
}

/// A message that can be read from a frame.
pub trait Decode<'a>: Sized {
    /// Reads the message in `version`. What follows it in the frame stays in the reader.
    fn decode(r: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError>;
}

/// A message that can be written.
pub trait Encode {
    /// Writes the message in `version`. It is an error when the message has no such version, when a field is set that
    /// the version lacks and that must not be dropped silently, when a value is null that may not be, or when a string
    /// is longer than the protocol can say. After an error the writer's content is worthless.
    fn encode(&self, w: &mut Writer, version: i16) -> Result<(), EncodeError>;
}

/// What can stand in an array: generated structs and scalars.
pub trait ReadItem<'a>: Sized {
    /// The fewest bytes that one item takes on the wire in any version; at least 1.
    const WIRE_MIN: usize;
    /// Reads one item of a message whose version has been checked.
    fn read(r: &mut Reader<'a>, v: i16) -> Result<Self, DecodeError>;
}

/// What can stand in an array: generated structs and scalars.
pub trait WriteItem {
    /// Writes one item of a message whose version has been checked; errors stay in the writer.
    fn write(&self, w: &mut Writer, v: i16);
}

impl<'a, T: Message + ReadItem<'a>> Decode<'a> for T {
    fn decode(r: &mut Reader<'a>, version: i16) -> Result<T, DecodeError> {
        if version < T::VERSION_MIN || version > T::VERSION_MAX {
            return Err(r.fail(DecodeErrorKind::UnsupportedVersion));
        }
        r.set_flexible(version >= T::FLEXIBLE_FROM);
        T::read(r, version)
    }
}

impl<T: Message + WriteItem> Encode for T {
    fn encode(&self, w: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if version < T::VERSION_MIN || version > T::VERSION_MAX {
            return Err(EncodeError::UnsupportedVersion { message: T::NAME, version });
        }
        w.set_flexible(version >= T::FLEXIBLE_FROM);
        self.write(w, version);
        w.check()
    }
}

macro_rules! scalar_items {
    ($($ty:ty, $size:literal, $method:ident;)*) => { $(
        impl<'a> ReadItem<'a> for $ty {
            const WIRE_MIN: usize = $size;
            fn read(r: &mut Reader<'a>, _v: i16) -> Result<$ty, DecodeError> {
                r.$method()
            }
        }
        impl WriteItem for $ty {
            fn write(&self, w: &mut Writer, _v: i16) {
                w.$method(*self);
            }
        }
    )* };
}

scalar_items! {
    i8, 1, i8;
    i16, 2, i16;
    i32, 4, i32;
    i64, 8, i64;
}

impl<'a> ReadItem<'a> for Uuid {
    const WIRE_MIN: usize = 16;
    fn read(r: &mut Reader<'a>, _v: i16) -> Result<Uuid, DecodeError> {
        r.uuid()
    }
}

impl WriteItem for Uuid {
    fn write(&self, w: &mut Writer, _v: i16) {
        w.uuid(self);
    }
}

impl<'a> ReadItem<'a> for Str<'a> {
    const WIRE_MIN: usize = 1;
    fn read(r: &mut Reader<'a>, _v: i16) -> Result<Str<'a>, DecodeError> {
        r.string()
    }
}

impl WriteItem for Str<'_> {
    fn write(&self, w: &mut Writer, _v: i16) {
        w.string(self);
    }
}

/// The same text, owned.
pub fn own_str(text: Str<'_>) -> Str<'static> {
    Cow::Owned(text.into_owned())
}

/// The same bytes, owned.
pub fn own_bin(bytes: Bin<'_>) -> Bin<'static> {
    Cow::Owned(bytes.into_owned())
}
