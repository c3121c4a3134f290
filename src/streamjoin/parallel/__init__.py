"""What threads share: crews with their boards, and gates."""
