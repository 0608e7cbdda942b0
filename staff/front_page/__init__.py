"""The admin's front page: what needs a person, then how mail has gone."""
