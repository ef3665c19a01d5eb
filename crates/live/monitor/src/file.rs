//! Capture files: reads pcap and pcapng, writes pcap.

use crate::packet::LinkLayer;
use base::Instant;
use core::fmt;
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, PcapHeader, create_reader};
use std::io::Read;

/// Room for one block of a file: capture programs write packets of at most 256 KiB.
const ROOM: usize = 1 << 20;

/// The reason why a file was not read, or not to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileError {
    /// The file is neither pcap nor pcapng.
    NotCapture,
    /// Packets have a link layer of this unknown number.
    Link(i32),
    /// The file ends within a packet.
    Truncated,
    /// A read has failed.
    Unreadable,
    /// A block is malformed.
    Malformed,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCapture => f.write_str("not a capture file: expected pcap or pcapng"),
            Self::Link(number) => write!(
                f,
                "link type {number} is not supported; expected Ethernet, raw IP, Linux cooked or BSD loopback"
            ),
            Self::Truncated => f.write_str("the file ends within a packet"),
            Self::Unreadable => f.write_str("the file cannot be read"),
            Self::Malformed => f.write_str("a part of the file is malformed"),
        }
    }
}

impl std::error::Error for FileError {}

/// An interface of a file: its link layer, and the meaning of its times.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkLayer,
    /// Units of time in a second.
    resolution: u64,
    /// Seconds to add.
    offset: i64,
}

impl Interface {
    fn new(link: Linktype, resolution: u64, offset: i64) -> Result<Self, FileError> {
        let link = LinkLayer::of_file(link.0).ok_or(FileError::Link(link.0))?;
        Ok(Self { link, resolution: resolution.max(1), offset })
    }

    fn time(&self, units: u64) -> Instant {
        let nanos = u128::from(units) * 1_000_000_000 / u128::from(self.resolution);
        let nanos = i128::try_from(nanos).unwrap_or(i128::MAX) + i128::from(self.offset) * 1_000_000_000;
        Instant::from_nanos(nanos.clamp(0, u64::MAX.into()) as u64)
    }
}

/// State of reading a file.
#[derive(Default)]
struct Reading {
    /// Interfaces of the present section; pcap has one section.
    interfaces: Vec<Interface>,
    nanoseconds: bool,
}

/// Reads a file, and calls `packet` with each packet, its time since 1970 and its link layer.
///
/// # Errors
/// The file is no capture file, or malformed from some place on; `packet` has been called for the packets before.
pub fn read(
    file: impl Read + Send,
    mut packet: impl FnMut(Instant, LinkLayer, &[u8]),
) -> Result<(), FileError> {
    let mut reader = create_reader(ROOM, file).map_err(|error| match error {
        PcapError::ReadError => FileError::Unreadable,
        _ => FileError::NotCapture,
    })?;
    let mut reading = Reading::default();
    loop {
        match reader.next() {
            Ok((consumed, block)) => {
                reading.block(block, &mut packet)?;
                reader.consume(consumed);
            }
            Err(PcapError::Eof) => return Ok(()),
            Err(PcapError::Incomplete(_)) => {
                let (before, was_end) = (reader.data().len(), reader.reader_exhausted());
                reader.refill().map_err(|_| FileError::Unreadable)?;
                let more = reader.data().len() > before;
                if !more && (was_end || !reader.reader_exhausted()) {
                    return Err(FileError::Truncated);
                }
            }
            Err(PcapError::UnexpectedEof) => {
                let is_end = reader.data().is_empty();
                return if is_end { Ok(()) } else { Err(FileError::Truncated) };
            }
            Err(PcapError::ReadError) => return Err(FileError::Unreadable),
            Err(_) => return Err(FileError::Malformed),
        }
    }
}

impl Reading {
    fn block(
        &mut self,
        block: PcapBlockOwned<'_>,
        packet: &mut impl FnMut(Instant, LinkLayer, &[u8]),
    ) -> Result<(), FileError> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => self.begin_pcap(&header)?,
            PcapBlockOwned::Legacy(block) => {
                let Some(interface) = self.interfaces.first() else { return Err(FileError::Malformed) };
                let unit = if self.nanoseconds { 1 } else { 1_000 };
                let nanos = u64::from(block.ts_sec) * 1_000_000_000 + u64::from(block.ts_usec) * unit;
                packet(interface.time(nanos), interface.link, block.data);
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => self.interfaces.clear(),
            PcapBlockOwned::NG(Block::InterfaceDescription(block)) => {
                let resolution = block.ts_resolution().ok_or(FileError::Malformed)?;
                let interface = Interface::new(block.linktype, resolution, block.if_tsoffset)?;
                self.interfaces.push(interface);
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(block)) => {
                let interface = self.interfaces.get(block.if_id as usize).ok_or(FileError::Malformed)?;
                let units = u64::from(block.ts_high) << 32 | u64::from(block.ts_low);
                let data = block.data.get(..block.caplen as usize).unwrap_or(block.data);
                packet(interface.time(units), interface.link, data);
            }
            // Simple packets have no time; all other blocks are about the file.
            PcapBlockOwned::NG(_) => {}
        }
        Ok(())
    }

    fn begin_pcap(&mut self, header: &PcapHeader) -> Result<(), FileError> {
        self.nanoseconds = header.is_nanosecond_precision();
        self.interfaces = vec![Interface::new(header.network, 1_000_000_000, 0)?];
        Ok(())
    }
}

/// Returns the header of a pcap file of IP packets, with times in nanoseconds and packets of any length.
pub fn header() -> [u8; 24] {
    let mut header = [0; 24];
    let fields: [&[u8]; 6] = [
        &0xa1b2_3c4d_u32.to_le_bytes(),
        &2_u16.to_le_bytes(),
        &4_u16.to_le_bytes(),
        &[0; 8],
        &(256_u32 << 10).to_le_bytes(),
        // LINKTYPE_RAW.
        &101_u32.to_le_bytes(),
    ];
    header.copy_from_slice(&fields.concat());
    header
}

/// Returns the header of a packet of this length.
pub fn record(at: Instant, length: usize) -> [u8; 16] {
    let nanos = at.as_nanos();
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    let fields = [(nanos / 1_000_000_000) as u32, (nanos % 1_000_000_000) as u32, length, length];
    let mut record = [0; 16];
    for (place, field) in record.chunks_exact_mut(4).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    record
}

#[cfg(test)]
mod tests;
