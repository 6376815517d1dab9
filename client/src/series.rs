//! Document numbers, such as INV-2026-000123.

use std::sync::Arc;
use std::time::Duration;

use leafd_wire::SeriesReply;
use leafd_wire::series::NUMBERS_MAX;

use crate::core::Core;
use crate::error::{Error, Result};

/// The numbers of a series, or of one of its tenants.
///
/// Each call draws directly. The daemon uses the store's clock to decide which period a number belongs to.
///
/// ```no_run
/// # fn main() -> Result<(), leafd_client::Error> {
/// # let client = leafd_client::Client::connect(leafd_client::default_socket_path())?;
/// let number = client.series("invoices").next()?; // such as INV-2026-000123
/// let orders = client.series("orders").tenant("acme");
/// let three = orders.next_batch(3)?; // such as ORD-ACME-20261124-00017, ...
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Series {
    core: Arc<Core>,
    name: Box<str>,
    tenant: Box<str>,
    limit: Option<Duration>,
}

impl Series {
    pub(crate) fn new(core: &Arc<Core>, name: &str, limit: Option<Duration>) -> Self {
        Series { core: Arc::clone(core), name: name.into(), tenant: "".into(), limit }
    }

    /// Returns a handle for the numbers of a tenant: letters and digits, in upper or lower case.
    #[must_use]
    pub fn tenant(&self, tenant: &str) -> Self {
        Series { tenant: tenant.into(), ..self.clone() }
    }

    /// Draws the next number.
    ///
    /// # Errors
    /// [`Error::Service`] with [`leafd_wire::Status::TagUnknown`] if there is no such series, with
    /// [`leafd_wire::Status::ValueRefused`] for a tenant that the series can't have, and with
    /// [`leafd_wire::Status::StoreUnavailable`] during a store outage if the daemon doesn't know the period or holds no
    /// numbers for it; otherwise the same as [`crate::Client::next`].
    pub fn next(&self) -> Result<String> {
        let mut texts = self.next_batch(1)?;
        texts.pop().ok_or_else(|| Error::protocol("no number in an answer"))
    }

    /// Draws the next `count` numbers. They may span two periods.
    ///
    /// # Errors
    /// Same as [`Series::next`].
    pub fn next_batch(&self, count: u32) -> Result<Vec<String>> {
        for name in [&self.name, &self.tenant] {
            if name.len() > LENGTH_MAX {
                return Err(Error::invalid(format!("a name of {} bytes", name.len())));
            }
        }
        let mut deadline = self.core.deadline(self.limit);
        let mut all = Vec::new();
        let mut left = count;
        while left > 0 {
            let asked = left.min(NUMBERS_MAX);
            let body = self.core.draw_numbers(&self.name, &self.tenant, asked, &mut deadline)?;
            let reply = SeriesReply::decode(&body).map_err(|error| Error::protocol(error.what))?;
            if reply.texts.len() != asked as usize {
                return Err(Error::protocol("another count of numbers than was asked for"));
            }
            all.extend(reply.texts.into_iter().map(str::to_owned));
            left -= asked;
        }
        Ok(all)
    }
}

/// Longer than any name.
const LENGTH_MAX: usize = 1024;

impl std::fmt::Debug for Series {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Series").field("name", &self.name).field("tenant", &self.tenant).finish()
    }
}
