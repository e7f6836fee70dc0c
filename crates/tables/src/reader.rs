//! A table as a stream of batches: an iterator, and with it an Arrow C stream.
//!
//! The walk over the capture runs on a thread of its own, at most `AHEAD` batches ahead of the
//! reader. It begins with the first request for a batch, and ends when the reader is dropped.

use std::sync::mpsc::{sync_channel, Receiver};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};

use crate::{Halt, Source, Table};

/// Batches that are made before they are requested.
const AHEAD: usize = 1;

/// `None`: all batches were sent.
type Message = Option<Result<RecordBatch, ArrowError>>;

enum State {
    Waits(Arc<Source>),
    Runs(Receiver<Message>),
    Over,
}

/// The batches of a table, made as they are read.
pub struct Reader {
    table: &'static Table,
    schema: SchemaRef,
    state: State,
}

impl Reader {
    /// A reader of one table. Costs nothing before the first request for a batch.
    pub fn new(source: Arc<Source>, table: &'static Table) -> Reader {
        Reader { table, schema: table.schema(), state: State::Waits(source) }
    }

    fn begin(&self, source: Arc<Source>) -> Result<Receiver<Message>, ArrowError> {
        let (send, receive) = sync_channel(AHEAD);
        let table = self.table;
        let walk = move || {
            let sent = |message| send.send(message).map_err(|_| Halt::from("nobody reads on"));
            let last = match table.write(&source, &mut |batch| sent(Some(Ok(batch)))) {
                Ok(()) => None,
                Err(halt) => Some(Err(ArrowError::ExternalError(halt))),
            };
            // A dropped reader needs no end.
            let _ = sent(last);
        };
        let named = std::thread::Builder::new().name("dashcam-table".to_owned());
        named.spawn(walk).map(|_| receive).map_err(|e| {
            ArrowError::IoError(format!("table {}: no thread for it: {e}", table.name), e)
        })
    }
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let State::Waits(source) = &self.state {
            match self.begin(source.clone()) {
                Ok(receive) => self.state = State::Runs(receive),
                Err(error) => {
                    self.state = State::Over;
                    return Some(Err(error));
                }
            }
        }
        let State::Runs(receive) = &self.state else { return None };
        let lost = || {
            let text = format!("table {}: its thread ended before its end", self.table.name);
            Some(Err(ArrowError::ComputeError(text)))
        };
        let next = receive.recv().unwrap_or_else(|_| lost());
        if !matches!(next, Some(Ok(_))) {
            self.state = State::Over;
        }
        next
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
