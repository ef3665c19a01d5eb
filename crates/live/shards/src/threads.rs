//! Setup and start of a process's traffic threads.

use super::alarm::Alarm;
use super::board::Board;
use super::clock::Clock;
use super::command::{Command, ShardReport, WorkerHandle};
use super::counts::Traffic;
use super::handover::{Receiver, Sender, ring};
use super::late::LateHandovers;
use super::other_process::OtherProcess;
use super::records::Records;
use super::signals::Signals;
use super::socket_filter::ReadShare;
use super::stores::Stores;
use super::triage::TriageQueue;
use super::utilisation::ModelProcessor;
use super::worker::{Peers, Worker};
use base::{Instant, Outbox};
use node::{Ports, Setup, Shard};
use sockets::{ReceiveBatch, SendBatch, UdpSocket, Waker};
use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use streams::{ConnectionLimits, StreamBatch, StreamListener, StreamSettings, StreamSetup, Streams};
use tokio::sync::mpsc;

/// The threads, one for each shard. They run after [`start`](Self::start).
pub struct Threads {
    workers: Vec<Worker>,
    handles: Vec<WorkerHandle>,
}

impl Threads {
    /// Creates a thread for each shard with its sockets: one or more for each of `listeners` datagram listeners.
    ///
    /// # Errors
    /// If the process has no room for more descriptors.
    pub fn new(
        clock: Clock,
        shards: Vec<(Shard, Vec<UdpSocket>)>,
        listeners: usize,
        board: &Arc<Board>,
        reports: &mpsc::UnboundedSender<ShardReport>,
    ) -> io::Result<Self> {
        let (mut workers, mut handles, relayed) = (Vec::new(), Vec::new(), Arc::default());
        for (index, (peers, (shard, sockets))) in
            connect(shards.len(), board)?.into_iter().zip(shards).enumerate()
        {
            let (handle, commands) =
                WorkerHandle::new(Arc::clone(&peers.wakers[index]), Arc::clone(&relayed));
            sockets.iter().try_for_each(UdpSocket::stamp)?;
            let dry = vec![Instant::ZERO; sockets.len()];
            handles.push(handle.clone());
            workers.push(Worker {
                index,
                clock,
                alarm: Alarm::new()?,
                sockets,
                listeners,
                ready: Vec::new(),
                quiet: Vec::new(),
                inlet: None,
                awaits_inlet: false,
                processes: Vec::new(),
                relayed: HashSet::new(),
                shard,
                peers,
                commands,
                handle,
                others: Vec::new(),
                stores: None,
                records: None,
                recorder: None,
                reports: reports.clone(),
                receive: ReceiveBatch::new(),
                send: SendBatch::new(),
                out: Outbox::default(),
                other_loads: Vec::new(),
                traffic: Traffic::default(),
                signals: Signals::default(),
                dry,
                queue: TriageQueue::new(),
                read_share: ReadShare::default(),
                streams: None,
                stream_batch: StreamBatch::default(),
                late: LateHandovers::default(),
                worked: Duration::ZERO,
                meter: None,
                model: None,
            });
        }
        Ok(Self { workers, handles })
    }

    /// Returns the handles of the threads.
    pub fn handles(&self) -> &[WorkerHandle] {
        &self.handles
    }

    /// Gives each thread its listening sockets of connections.
    ///
    /// # Errors
    /// If the process has no room for more descriptors.
    pub fn listen_for_streams(
        &mut self,
        listeners: Vec<Vec<StreamListener>>,
        limits: &Arc<ConnectionLimits>,
        settings: &StreamSettings,
        ports: &Ports,
        first: &Setup,
    ) -> io::Result<()> {
        let threads = self.workers.len();
        for (worker, listeners) in self.workers.iter_mut().zip(listeners).filter(|(_, own)| !own.is_empty()) {
            let locals = ports.iter().map(|port| port.local).collect();
            let (limits, settings) = (Arc::clone(limits), settings.clone());
            let setup = StreamSetup { index: worker.index, threads, locals, listeners, limits, settings };
            worker.streams = Some(Box::new(Streams::new(setup)?));
            worker.admit(first);
        }
        Ok(())
    }

    /// Gives the threads their shared resources.
    pub fn equip(
        &mut self,
        processes: &[Arc<OtherProcess>],
        stores: Option<&Arc<Stores>>,
        records: Option<&Arc<Records>>,
        model: Option<ModelProcessor>,
    ) {
        for worker in &mut self.workers {
            let others = self.handles.iter().enumerate().filter(|(index, _)| *index != worker.index);
            worker.others = others.map(|(_, handle)| handle.clone()).collect();
            worker.processes = processes.to_vec();
            worker.stores = stores.cloned();
            worker.records = records.cloned();
            worker.measure(model);
        }
    }

    /// Starts the threads. If one cannot be started, the started ones are ended.
    ///
    /// # Errors
    /// If the system starts no more threads.
    pub fn start(self) -> io::Result<Vec<JoinHandle<()>>> {
        let mut threads = Vec::new();
        for (index, worker) in self.workers.into_iter().enumerate() {
            match std::thread::Builder::new().name(format!("shard-{index}")).spawn(move || worker.run()) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    for (thread, handle) in threads.into_iter().zip(&self.handles) {
                        handle.send(Command::Stop);
                        let _ = thread.join();
                    }
                    return Err(error);
                }
            }
        }
        Ok(threads)
    }
}

/// Creates rings between every two threads, and their shared resources.
fn connect(count: usize, board: &Arc<Board>) -> io::Result<Vec<Peers>> {
    let wakers = (0..count).map(|_| Waker::new().map(Arc::new)).collect::<io::Result<Vec<_>>>()?;
    let mut senders: Vec<Vec<Option<Sender>>> = Vec::new();
    let mut receivers: Vec<Vec<Receiver>> = (0..count).map(|_| Vec::new()).collect();
    for from in 0..count {
        let mut row = Vec::new();
        for (to, inbox) in receivers.iter_mut().enumerate() {
            row.push((from != to).then(|| {
                let (sender, receiver) = ring();
                inbox.push(receiver);
                sender
            }));
        }
        senders.push(row);
    }
    let all = senders.into_iter().zip(receivers);
    Ok(all
        .map(|(senders, receivers)| Peers {
            board: Arc::clone(board),
            senders,
            receivers,
            wakers: wakers.clone(),
        })
        .collect())
}
