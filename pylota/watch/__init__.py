"""What is looked at every minute: conditions that a person has to hear of."""
