"""Commands about runs, from assignment to retention, and what follows from their ends."""
