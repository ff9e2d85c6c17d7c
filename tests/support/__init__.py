"""What the tests share: small fake wheels and a package index on the loopback interface that serves them."""
