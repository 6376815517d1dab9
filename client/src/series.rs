//! Document numbers, such as INV-2026-000123.

use std::sync::Arc;
use std::time::Duration;

use leafd_wire::NUMBERS_MAX;
use leafd_wire::tag::check_tag;

use crate::core::Core;
use crate::error::{Error, Result};

/// The numbers of a series, or of one of its tenants.
///
/// Each call draws directly from the daemon, which uses the store's clock to decide which period a number belongs to.
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
    /// The name of the series, or of the series and a tenant, such as `orders/acme`.
    name: Box<str>,
    limit: Option<Duration>,
}

impl Series {
    pub(crate) fn new(core: &Arc<Core>, name: &str, limit: Option<Duration>) -> Self {
        Series { core: Arc::clone(core), name: name.into(), limit }
    }

    /// Returns a handle for the numbers of a tenant: letters and digits, in upper or lower case.
    #[must_use]
    pub fn tenant(&self, tenant: &str) -> Self {
        let series = self.name.split('/').next().unwrap_or_default();
        let slash = if tenant.is_empty() { "" } else { "/" };
        Series { name: format!("{series}{slash}{tenant}").into(), ..self.clone() }
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

    /// Draws the next `count` numbers, in the order of issue. They may span two periods. Each 1,000 numbers take one
    /// request.
    ///
    /// # Errors
    /// Same as [`Series::next`]. If one of several requests fails, the numbers of the others are skipped.
    pub fn next_batch(&self, count: u32) -> Result<Vec<String>> {
        check_tag(self.name.as_bytes()).map_err(|error| {
            Error::invalid(format!("{:?} is not a valid name: {error}", self.name))
        })?;
        let mut deadline = self.core.deadline(self.limit);
        let (mut all, mut left) = (Vec::new(), count);
        while left > 0 {
            let asked = left.min(NUMBERS_MAX);
            let body = self.core.draw_numbers(&self.name, asked, &mut deadline)?;
            let text = String::from_utf8_lossy(&body);
            all.extend(text.split('\n').map(str::to_owned));
            left -= asked;
            if all.len() != (count - left) as usize || all.iter().any(String::is_empty) {
                return Err(Error::protocol("a different count of numbers than was requested"));
            }
        }
        Ok(all)
    }
}

impl std::fmt::Debug for Series {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Series").field("name", &self.name).finish()
    }
}
