-- MySQL dump 10.13  Distrib 9.7.4, for Linux (x86_64)
--
-- Host: localhost    Database: ids
-- ------------------------------------------------------
-- Server version	9.7.4-2

/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET @OLD_CHARACTER_SET_RESULTS=@@CHARACTER_SET_RESULTS */;
/*!40101 SET @OLD_COLLATION_CONNECTION=@@COLLATION_CONNECTION */;
/*!50503 SET NAMES utf8mb4 */;
/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;

--
-- Table structure for table `leaf_alloc`
--

DROP TABLE IF EXISTS `leaf_alloc`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `leaf_alloc` (
  `biz_tag` varchar(128) COLLATE utf8mb4_bin NOT NULL DEFAULT '',
  `max_id` bigint NOT NULL DEFAULT '1',
  `step` int NOT NULL,
  `description` varchar(256) COLLATE utf8mb4_bin DEFAULT NULL,
  `update_time` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`biz_tag`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='leafd-6388a21174d0c395';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `leaf_alloc`
--

LOCK TABLES `leaf_alloc` WRITE;
/*!40000 ALTER TABLE `leaf_alloc` DISABLE KEYS */;
INSERT INTO `leaf_alloc` VALUES ('orders',9001,1000,NULL,'2026-11-25 18:11:00');
/*!40000 ALTER TABLE `leaf_alloc` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `leaf_workerid_alloc`
--

DROP TABLE IF EXISTS `leaf_workerid_alloc`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `leaf_workerid_alloc` (
  `id` bigint NOT NULL AUTO_INCREMENT,
  `ip` varchar(127) COLLATE utf8mb4_bin DEFAULT NULL,
  `port` varchar(127) COLLATE utf8mb4_bin DEFAULT NULL,
  `ip_port` varchar(127) COLLATE utf8mb4_bin NOT NULL,
  `max_timestamp` bigint DEFAULT NULL,
  `create_time` timestamp NULL DEFAULT CURRENT_TIMESTAMP,
  `update_time` timestamp NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`id`),
  UNIQUE KEY `ip_port` (`ip_port`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `leaf_workerid_alloc`
--

LOCK TABLES `leaf_workerid_alloc` WRITE;
/*!40000 ALTER TABLE `leaf_workerid_alloc` DISABLE KEYS */;
/*!40000 ALTER TABLE `leaf_workerid_alloc` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `leafd_claim`
--

DROP TABLE IF EXISTS `leafd_claim`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `leafd_claim` (
  `tag` varbinary(512) NOT NULL,
  `end_id` bigint NOT NULL,
  `claimed_ms` bigint NOT NULL,
  `first_id` bigint NOT NULL,
  `stride` int NOT NULL,
  `generation` bigint NOT NULL,
  `host` varchar(64) COLLATE ascii_bin NOT NULL,
  `name` varchar(255) COLLATE ascii_bin NOT NULL,
  `holds_from` bigint DEFAULT NULL,
  PRIMARY KEY (`tag`,`end_id`,`claimed_ms`),
  KEY `leafd_claim_age` (`claimed_ms`)
) ENGINE=InnoDB DEFAULT CHARSET=ascii COLLATE=ascii_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `leafd_claim`
--

LOCK TABLES `leafd_claim` WRITE;
/*!40000 ALTER TABLE `leafd_claim` DISABLE KEYS */;
INSERT INTO `leafd_claim` VALUES (_binary 'orders',1001,1795630260330,1,1,2171479371817722769,'9e456ff262a58e1ac4a22141ec242047','vm',NULL),(_binary 'orders',9001,1795630260334,1001,1,2171479371817722769,'9e456ff262a58e1ac4a22141ec242047','vm',NULL);
/*!40000 ALTER TABLE `leafd_claim` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `leafd_host`
--

DROP TABLE IF EXISTS `leafd_host`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `leafd_host` (
  `host` varchar(64) COLLATE ascii_bin NOT NULL,
  `start_token` varchar(64) COLLATE ascii_bin NOT NULL,
  `started` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `written` bigint NOT NULL DEFAULT '0',
  PRIMARY KEY (`host`)
) ENGINE=InnoDB DEFAULT CHARSET=ascii COLLATE=ascii_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `leafd_host`
--

LOCK TABLES `leafd_host` WRITE;
/*!40000 ALTER TABLE `leafd_host` DISABLE KEYS */;
INSERT INTO `leafd_host` VALUES ('9e456ff262a58e1ac4a22141ec242047','30d7c4a43faa0d4bb68e02405daf569b','2026-11-25 18:11:00',5);
/*!40000 ALTER TABLE `leafd_host` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `leafd_layout`
--

DROP TABLE IF EXISTS `leafd_layout`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `leafd_layout` (
  `name` varbinary(512) NOT NULL,
  `definition` varchar(255) COLLATE ascii_bin NOT NULL,
  PRIMARY KEY (`name`)
) ENGINE=InnoDB DEFAULT CHARSET=ascii COLLATE=ascii_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `leafd_layout`
--

LOCK TABLES `leafd_layout` WRITE;
/*!40000 ALTER TABLE `leafd_layout` DISABLE KEYS */;
INSERT INTO `leafd_layout` VALUES (_binary 'snowflake','time_bits=41 worker_bits=10 sequence_bits=12 unit_ms=1 epoch_ms=1288834974657');
/*!40000 ALTER TABLE `leafd_layout` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `leafd_meta`
--

DROP TABLE IF EXISTS `leafd_meta`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `leafd_meta` (
  `name` varchar(64) COLLATE ascii_bin NOT NULL,
  `value` varchar(9000) COLLATE ascii_bin NOT NULL,
  PRIMARY KEY (`name`)
) ENGINE=InnoDB DEFAULT CHARSET=ascii COLLATE=ascii_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `leafd_meta`
--

LOCK TABLES `leafd_meta` WRITE;
/*!40000 ALTER TABLE `leafd_meta` DISABLE KEYS */;
INSERT INTO `leafd_meta` VALUES ('format','2'),('history','settled	0368beb34dfdafaf	hostname=vm port=31141 server_id=31141 server_uuid=8e0e4558-e8fb-11f1-8107-02fc00000001 database=ids 02b590ae8ee01744 2026-11-25 18:10:58 2026-11-25 18:10:57 2026-11-25 18:10:58.273204'),('identity','9056afba-e8fb-11f1-8107-02fc00000001'),('right','0 21eaf6d90e6957c9'),('role','');
/*!40000 ALTER TABLE `leafd_meta` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `leafd_tag`
--

DROP TABLE IF EXISTS `leafd_tag`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `leafd_tag` (
  `tag` varbinary(512) NOT NULL,
  `generation` bigint NOT NULL DEFAULT '0',
  `ceiling` bigint DEFAULT NULL,
  `strict` int NOT NULL DEFAULT '0',
  `masked` varbinary(512) DEFAULT NULL,
  `highest_end` bigint NOT NULL DEFAULT '0',
  `role_version` bigint NOT NULL DEFAULT '-1',
  `row_start` datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (`tag`)
) ENGINE=InnoDB DEFAULT CHARSET=ascii COLLATE=ascii_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `leafd_tag`
--

LOCK TABLES `leafd_tag` WRITE;
/*!40000 ALTER TABLE `leafd_tag` DISABLE KEYS */;
INSERT INTO `leafd_tag` VALUES ('',0,NULL,0,NULL,0,-1,'2026-11-25 18:10:58.273204'),(_binary 'orders',2171479371817722769,9223372036854775807,0,NULL,9001,0,'2026-11-25 18:11:00.321968');
/*!40000 ALTER TABLE `leafd_tag` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `leafd_worker`
--

DROP TABLE IF EXISTS `leafd_worker`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `leafd_worker` (
  `worker` bigint NOT NULL,
  `holder` varchar(255) COLLATE ascii_bin DEFAULT NULL,
  `name` varchar(255) COLLATE ascii_bin DEFAULT NULL,
  `incarnation` varchar(255) COLLATE ascii_bin DEFAULT NULL,
  `bound` bigint NOT NULL,
  `seen` bigint NOT NULL,
  `written` bigint NOT NULL,
  PRIMARY KEY (`worker`)
) ENGINE=InnoDB DEFAULT CHARSET=ascii COLLATE=ascii_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `leafd_worker`
--

LOCK TABLES `leafd_worker` WRITE;
/*!40000 ALTER TABLE `leafd_worker` DISABLE KEYS */;
INSERT INTO `leafd_worker` VALUES (223,'9e456ff262a58e1ac4a22141ec242047','vm','stopped-30d7c4a43faa0d4bb68e02405daf569b',1795630320345,1795630260345,1795630260348);
/*!40000 ALTER TABLE `leafd_worker` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `leafd_worker_taken`
--

DROP TABLE IF EXISTS `leafd_worker_taken`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `leafd_worker_taken` (
  `worker` bigint NOT NULL,
  `since` bigint NOT NULL,
  `taken` bigint NOT NULL,
  `holder` varchar(255) COLLATE ascii_bin NOT NULL,
  `name` varchar(255) COLLATE ascii_bin NOT NULL,
  `incarnation` varchar(255) COLLATE ascii_bin NOT NULL,
  PRIMARY KEY (`worker`,`since`,`taken`)
) ENGINE=InnoDB DEFAULT CHARSET=ascii COLLATE=ascii_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `leafd_worker_taken`
--

LOCK TABLES `leafd_worker_taken` WRITE;
/*!40000 ALTER TABLE `leafd_worker_taken` DISABLE KEYS */;
INSERT INTO `leafd_worker_taken` VALUES (223,0,1795630260340,'9e456ff262a58e1ac4a22141ec242047','vm','30d7c4a43faa0d4bb68e02405daf569b');
/*!40000 ALTER TABLE `leafd_worker_taken` ENABLE KEYS */;
UNLOCK TABLES;
/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;

/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
/*!40014 SET UNIQUE_CHECKS=@OLD_UNIQUE_CHECKS */;
/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;
/*!40101 SET CHARACTER_SET_RESULTS=@OLD_CHARACTER_SET_RESULTS */;
/*!40101 SET COLLATION_CONNECTION=@OLD_COLLATION_CONNECTION */;
/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */;

-- Dump completed on 2026-11-25 18:11:01
