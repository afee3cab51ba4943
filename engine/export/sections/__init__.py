"""What exports share whose answer is in sections: a diagnosis, a timing."""
