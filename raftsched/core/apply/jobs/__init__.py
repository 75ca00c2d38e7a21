"""Commands about jobs: made and changed, due, done to many."""
