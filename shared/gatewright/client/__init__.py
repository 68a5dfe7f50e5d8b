"""For publishers: submit requests and contracts, follow runs, fetch artifacts."""
