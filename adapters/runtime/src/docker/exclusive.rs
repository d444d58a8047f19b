//! Exclusive containers, by their label.

use async_trait::async_trait;
use persys_model::id::WorkloadId;

use crate::error::Error;
use crate::exclusive::Exclusive;

use super::{Docker, identity};

#[async_trait]
impl Exclusive for Docker {
    async fn exclusive(&self) -> Result<Vec<WorkloadId>, Error> {
        // Without `all`, Docker lists what runs, frozen containers included.
        let running = self.summaries(identity::exclusive_filter(&self.owner), false).await?;
        Ok(running
            .iter()
            .filter_map(|summary| self.mark_of(summary).map(|mark| mark.workload))
            .collect())
    }
}
