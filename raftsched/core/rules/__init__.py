"""Pure rules about rows and values, which apply, leader, worker and API ask alike."""
