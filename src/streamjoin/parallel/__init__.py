"""What threads share: crews, mailboxes, gates, and nodes that run on threads."""
