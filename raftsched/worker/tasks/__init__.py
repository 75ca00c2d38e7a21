"""From a row to something that starts: the task of an attempt, what it may touch, what it answers."""
