"""Client of Sluicegate, the rate-limit server."""
