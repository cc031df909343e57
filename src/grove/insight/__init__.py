"""What a person asks: what would happen, why it is as it is. Pure: it reads values and answers with values."""
