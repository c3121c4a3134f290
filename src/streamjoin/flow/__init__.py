"""When a tuple takes part, whom it may meet, and in which order results leave."""
